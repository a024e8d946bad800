package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
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
func (f *infoFlags) run(c *cobra.Command, paths []string) error {
	if err := refuseZero(c.Flags()); err != nil {
		return err
	}
	summaries := make([]*summary, 0, len(paths))
	for i, path := range paths {
		s, err := f.describe(c, path)
		if err != nil {
			return err
		}
		if f.json {
			summaries = append(summaries, s)
			continue
		}
		if i > 0 {
			_, err = fmt.Fprintln(c.OutOrStdout())
		}
		if err = errors.Join(err, s.print(c.OutOrStdout())); err != nil {
			return err
		}
	}
	if !f.json {
		return nil
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"traces": summaries})
}

// describe reads one trace to its end.
func (f *infoFlags) describe(c *cobra.Command, path string) (s *summary, err error) {
	r, err := f.trace.open(c.Context(), path, c.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	stop := startProgress(c.ErrOrStderr(), "reading", progressOf(r))
	defer stop()
	return summarise(cancellable{r, c.Context()}, path, f.trace.pageSizeFor(infoOf(r)))
}

// print writes the summary for people.
func (s *summary) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush reports it
	}
	count := units.FormatCount
	row("trace", "%s", s.Trace)
	format := s.Format
	if s.Compression != "" {
		format += ", " + s.Compression
	}
	row("format", "%s", format)
	if s.Source != "" {
		row("source", "%s", s.Source)
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
