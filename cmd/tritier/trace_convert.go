package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace"
)

// convertFlags are the options of tritier trace convert.
type convertFlags struct {
	trace traceFlags
	to    string
	json  bool
}

func newTraceConvertCommand() *cobra.Command {
	var flags convertFlags
	c := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Convert a trace to another format",
		Long: `Convert a trace to another format. OUT's extension names the format and the
compression (.gz, .zst, .xz); OUT appears when it is complete, and an error or
Ctrl-C leaves an older OUT as it was.

native, the own format (.ttrc), keeps everything. The others hold page accesses: byte ranges
are split into pages of --page-size. csv loses which writes are of whole pages; ids
loses times, arrays (they become part of the number) and requests too;
oracleGeneral also loses the operations, and IN is read twice for it.`,
		Example: `  tritier trace convert conversation_trace.jsonl conversation.ttrc
  tritier trace convert tpcc.mqsim tpcc.oracleGeneral.zst --page-size 4KiB
  tritier trace convert OLTP.lis - --to ids | head`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("trace convert takes an input and an output, not %s", plural(uint64(len(args)), "name"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return flags.run(c, args[0], args[1])
		},
	}
	flags.trace.register(c.Flags())
	flags.trace.registerColumns(c.Flags())
	c.Flags().StringVar(&flags.to, "to", "", "output format: "+strings.Join(encodingNames(), ", ")+" (default: by OUT's extension)")
	c.Flags().BoolVar(&flags.json, "json", false, "describe the conversion as JSON")
	return c
}

// convertResult is what --json says.
type convertResult struct {
	Input    string `json:"input"`
	From     string `json:"from"`
	Output   string `json:"output"`
	To       string `json:"to"`
	Records  int64  `json:"records"`
	PageSize uint64 `json:"page_size"`
}

func (f *convertFlags) run(c *cobra.Command, in, out string) (err error) {
	ctx := c.Context()
	if err := refuseZero(c.Flags()); err != nil {
		return err
	}
	if out == "-" && f.json {
		return errors.New("--json and the trace cannot both go to standard output; name an output file")
	}
	fallback := ""
	if out == "-" {
		out, fallback = "", "ids"
	}
	enc, err := chooseEncoding(f.to, out, fallback)
	if err != nil {
		return err
	}
	if err := refuseInput(out, c.OutOrStdout(), []string{in}, c.InOrStdin()); err != nil {
		return err
	}
	if err := twoPasses(enc, in); err != nil {
		return err
	}
	open := func(ctx context.Context) (trace.Reader, error) { return f.trace.open(ctx, in, c.InOrStdin()) }
	r, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	info := infoOf(r)
	f.trace.note(c.ErrOrStderr(), in, info)
	about := source{pageSize: f.trace.pageSizeFor(info), header: f.header(info, in)}
	stop := startProgress(c.ErrOrStderr(), "converting", progressOf(r))
	defer stop()
	begun := time.Now()
	if about.next, err = nextAccesses(ctx, enc, about.pageSize, open); err != nil {
		return err
	}
	var done copied
	if err := writeTrace(ctx, out, c.OutOrStdout(), enc, about, r, &done); err != nil {
		return err
	}
	stop()
	res := convertResult{in, info.Format, out, enc.name, done.records.Load(), about.pageSize}
	return f.report(c.OutOrStdout(), c.ErrOrStderr(), res, time.Since(begun))
}

// header describes the result as far as the input and the flags do.
func (f *convertFlags) header(info trace.Info, in string) trace.Header {
	h := trace.Header{PageSize: info.PageSize, Source: info.Source, Order: info.Order, PageAddressed: info.PageAddressed,
		Writes: info.Writes, Times: info.Times, Requests: info.Requests, Prompts: info.Prompts}
	if f.trace.pageSize != 0 {
		h.PageSize = uint64(f.trace.pageSize)
	}
	if h.Source == "" && in != "-" {
		h.Source = filepath.Base(in)
	}
	return h
}

// report says what was written, unless the trace itself went to stdout.
func (f *convertFlags) report(stdout, stderr io.Writer, res convertResult, took time.Duration) error {
	if f.json {
		return json.NewEncoder(stdout).Encode(res)
	}
	if res.Output == "" {
		return nil
	}
	_, err := fmt.Fprintf(stderr, "%s: %s (%s to %s) in %s\n", report.Printable(res.Output), plural(uint64(res.Records), "record"),
		res.From, res.To, units.FormatDuration(took))
	return err
}
