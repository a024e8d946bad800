package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace"
)

// defaultPageSize is the page size where neither a flag nor the trace names one.
const defaultPageSize = 64 << 10

func newTraceCommand() *cobra.Command {
	c := newGroup(&cobra.Command{
		Use:   "trace",
		Short: "Describe, convert and generate access traces",
		Long: `Describe, convert and generate access traces. Format and compression (gzip, zstd,
xz) of an input are detected by content. "-" is standard input.

Formats:
` + formatList(),
		Example: `  tritier trace info trace.ids.zst
  tritier trace convert trace.lis trace.ttrc
  tritier trace gen 'zipf{theta=0.99,pages=1M}' -o zipf.ttrc`,
	})
	c.AddCommand(newTraceInfoCommand(), newTraceConvertCommand(), newTraceGenCommand())
	return c
}

func formatList() string {
	var b strings.Builder
	for _, f := range trace.Formats() {
		fmt.Fprintf(&b, "  %-16s %s\n", f.Name, f.About)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// traceFlags say how traces are read: shared by every command that does.
type traceFlags struct {
	format   string
	order    string
	pageSize units.Bytes // 0 when not given
	columns  []string    // of a csv file without a header line
}

func (t *traceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&t.format, "format", "", "format of the input (default: detected by content)")
	f.StringVar(&t.order, "order", trace.Merged, "how the sessions of a session trace are joined: merged (by time) or concatenated")
	f.Var(&t.pageSize, "page-size", "page size, such as 64KiB (default: what the trace names, else 64KiB)")
}

// registerColumns adds the flag for csv files without a header line.
func (t *traceFlags) registerColumns(f *pflag.FlagSet) {
	f.StringSliceVar(&t.columns, "csv-columns", nil, "`NAMES` of the columns of a csv file without a header line, such as time,page,op")
}

// note tells the user of a page size that changes less than it may seem to.
func (t *traceFlags) note(w io.Writer, name string, info trace.Info) {
	if t.pageSize != 0 && info.PageAddressed {
		_, _ = fmt.Fprintf(w, "tritier: note: %s holds page numbers: --page-size only scales bytes there, pages stay as they are\n",
			report.Printable(name)) // nowhere else to report to
	}
}

// refuseZero refuses --page-size 0, which is not the same as none given.
func refuseZero(f *pflag.FlagSet) error {
	if flag := f.Lookup("page-size"); flag.Changed && flag.Value.String() == "" {
		return errors.New("--page-size 0: a page has at least one byte")
	}
	return nil
}

// open opens a trace file, or standard input for "-".
func (t *traceFlags) open(ctx context.Context, path string, stdin io.Reader) (trace.Reader, error) {
	options := trace.Options{Format: t.format, Order: t.order, Columns: t.columns}
	if path == "-" {
		return trace.New(interruptible(ctx, stdin), "standard input", options)
	}
	return trace.OpenContext(ctx, path, options)
}

// pageSizeFor is the page size to split a trace with.
func (t *traceFlags) pageSizeFor(info trace.Info) uint64 {
	switch {
	case t.pageSize != 0:
		return uint64(t.pageSize)
	case info.PageSize != 0:
		return info.PageSize
	}
	return defaultPageSize
}

// infoOf describes a reader; one that cannot say gives a zero Info.
func infoOf(r trace.Reader) trace.Info {
	if i, ok := r.(trace.Informer); ok {
		return i.Info()
	}
	return trace.Info{}
}

// progressOf polls a reader for a progress bar.
func progressOf(r trace.Reader) func() (done, total int64) {
	if p, ok := r.(trace.Progresser); ok {
		return p.Progress
	}
	return func() (int64, int64) { return 0, 0 }
}

// cancellable ends a Reader with the context's error: long runs between two
// batches notice Ctrl-C within milliseconds.
type cancellable struct {
	trace.Reader
	ctx context.Context
}

func (c cancellable) Next(recs []trace.Record) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Next(recs)
}

// Info passes the description on.
func (c cancellable) Info() trace.Info { return infoOf(c.Reader) }
