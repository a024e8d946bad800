// Package report shows results of the simulator: as a table for a terminal,
// as JSON and CSV for programs, as a self-contained HTML page and as a chart
// (SVG or PNG) for people.
//
// Every writer takes a Report and an io.Writer and keeps no state. The output
// depends on the Report alone: no clock, no locale, no terminal. Results keep
// their order; tables and charts group them by trace and by tier sizes.
//
// Modelled times, which come from a preset and not from a clock, carry the
// word "modelled" wherever they are shown.
package report
