package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace/bundled"
)

// infoFlags are the options of tritier trace info.
type infoFlags struct {
	trace traceFlags
	json  bool
}

func newTraceInfoCommand() *cobra.Command {
	var flags infoFlags
	c := &cobra.Command{
		Use:   "info TRACE...",
		Short: "Describe traces: format, accesses, footprint, operations, skew",
		Long: `Describe traces: format and compression, accesses by operation, distinct pages and
footprint at the page size, requests, arrays, time span, and the share of the
accesses that go to the most accessed pages. Memory grows with the distinct pages.`,
		Example: `  tritier trace info conversation_trace.jsonl
  tritier trace info --page-size 4KiB --json tpcc.mqsim | jq .traces[0].distinct_pages
  tritier trace gen 'zipf{pages=1000}' | tritier trace info --format ids -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("trace info takes one or more traces")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return flags.run(c, args) },
	}
	flags.trace.register(c.Flags())
	flags.trace.registerColumns(c.Flags())
	c.Flags().BoolVar(&flags.json, "json", false, "JSON instead of text")
	return c
}

// run describes each trace. Text appears trace by trace; JSON is one document.
// A trace that cannot be described does not hide the others.
func (f *infoFlags) run(c *cobra.Command, paths []string) error {
	if err := refuseZero(c.Flags()); err != nil {
		return err
	}
	if err := refuseInput("", c.OutOrStdout(), paths, c.InOrStdin()); err != nil {
		return err
	}
	summaries := make([]*summary, 0, len(paths))
	var failures []error
	for _, path := range paths {
		s, err := f.describe(c, path)
		if err != nil {
			failures = append(failures, err)
			if c.Context().Err() != nil {
				break
			}
			continue
		}
		if !f.json {
			if err := s.print(c.OutOrStdout(), len(summaries) > 0); err != nil {
				return err
			}
		}
		summaries = append(summaries, s)
	}
	err := errors.Join(failures...)
	if !f.json || len(summaries) == 0 && err != nil && c.Context().Err() == nil {
		return err
	}
	return errors.Join(writeJSON(c.OutOrStdout(), map[string]any{"traces": summaries}), err)
}

// describe reads one trace to its end.
func (f *infoFlags) describe(c *cobra.Command, path string) (s *summary, err error) {
	stop := startProgress(c.ErrOrStderr(), "opening "+report.Printable(path), unknownProgress)
	r, err := f.trace.open(c.Context(), path, c.InOrStdin())
	stop()
	if err != nil {
		return nil, reading(c.Context(), path, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f.trace.note(c.ErrOrStderr(), path, infoOf(r))
	stop = startProgress(c.ErrOrStderr(), "reading "+report.Printable(path), progressOf(r))
	defer stop()
	s, err = summarise(cancellable{r, c.Context()}, path, f.trace.pageSizeFor(infoOf(r)))
	return s, reading(c.Context(), path, err)
}

// reading says that it was the reading of a trace that Ctrl-C ended.
func reading(ctx context.Context, path string, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return &interruption{"while reading " + report.Printable(traceName(path))}
}

// traceName is what messages call the trace of an argument.
func traceName(path string) string {
	switch path {
	case "":
		return bundled.Name
	case "-":
		return "standard input"
	}
	return path
}

// print writes the summary for people, after an empty line if it is not the first.
func (s *summary) print(out io.Writer, further bool) error {
	if further {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush reports it
	}
	count := units.FormatCount
	row("trace", "%s", report.Printable(s.Trace))
	format := s.Format
	if s.Compression != "" {
		format += ", " + s.Compression
	}
	row("format", "%s", format)
	if s.Source != "" {
		row("source", "%s", report.Printable(strings.TrimRight(s.Source, " ")))
	}
	if s.Order != "" {
		row("order", "%s", s.Order)
	}
	row("accesses", "%s", count(s.Accesses))
	row("  reads", "%s", count(s.Reads))
	row("  writes", "%s (%s of whole pages)", count(s.Writes), count(s.WholeWrites))
	row("prefetches", "%s (not accesses)", count(s.Prefetches))
	row("distinct pages", "%s", count(s.DistinctPages))
	row("footprint", "%s at %s a page", units.FormatBytes(s.Footprint), units.ExactBytes(s.PageSize))
	row("arrays", "%s", count(s.Arrays))
	row("requests", "%s", count(s.Requests))
	if s.TimeSpan > 0 {
		row("time span", "%s", units.FormatDuration(time.Duration(min(s.TimeSpan, 1<<63-1))))
	}
	for _, t := range s.Top {
		row(fmt.Sprintf("hottest %v %%", t.PagesPercent), "%.1f %% of the accesses (%s)", t.AccessPercent, plural(t.Pages, "page"))
	}
	return w.Flush()
}

// plural writes a count of things.
func plural(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return units.FormatCount(n) + " " + thing
}
