package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/report"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/sim/workload"
)

// genFlags are the options of tritier trace gen.
type genFlags struct {
	output   string
	to       string
	pageSize units.Bytes
	bytes    units.Bytes
	seed     string
	json     bool
}

func newTraceGenCommand() *cobra.Command {
	var flags genFlags
	c := &cobra.Command{
		Use:   "gen SHAPE{key=value,...}",
		Short: "Generate a trace of known shape",
		Long: `Generate a trace of known shape, to a file or to standard output. The stream is a
function of the shape and its parameters alone, on every machine.

Shapes and their parameters:
` + catalogue(),
		Example: `  tritier trace gen 'zipf{pages=100000,accesses=1M,theta=0.99,writes=0.1}' -o zipf.ids.zst
  tritier trace gen 'hotspot{bytes=4GiB,iterations=20}' -o hotspot.ttrc
  tritier trace gen bfs --bytes 1GiB --seed 7 -o bfs.ttrc
  tritier trace gen 'loop{pages=300,accesses=1000}' | head`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("trace gen takes one shape, not %d; valid are %s", len(args), strings.Join(workload.Names(), ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := refuseZero(c.Flags()); err != nil {
				return err
			}
			return flags.run(c.Context(), args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "file to write (default: standard output)")
	f.StringVar(&flags.to, "to", "", "output format: "+strings.Join(encodingNames(), ", ")+" (default: by extension; ids to standard output)")
	f.Var(&flags.pageSize, "page-size", "page size, as page-size= in the shape")
	f.Var(&flags.bytes, "bytes", "total size, as bytes= in the shape")
	f.StringVar(&flags.seed, "seed", "", "seed, as seed= in the shape")
	f.BoolVar(&flags.json, "json", false, "describe what was generated as JSON; needs -o")
	return c
}

// catalogue is the shapes for the help.
func catalogue() string {
	var b strings.Builder
	for _, s := range workload.Catalogue() {
		fmt.Fprintf(&b, "\n  %s: %s\n", s.Name, s.Doc)
		for _, p := range s.Params {
			value := p.Default
			if len(p.Choices) > 0 {
				value += " (" + strings.Join(p.Choices, ", ") + ")"
			}
			fmt.Fprintf(&b, "    %-12s %s", p.Name, p.Doc)
			if p.Sets != "" {
				fmt.Fprintf(&b, " (instead of %s)", p.Sets)
			}
			if value != "" {
				fmt.Fprintf(&b, "; default %s", value)
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shape adds the flags to the text of the shape, where they are keys.
func (g *genFlags) shape(text string) string {
	var keys []string
	if g.pageSize != 0 {
		keys = append(keys, "page-size="+g.pageSize.String())
	}
	if g.bytes != 0 {
		keys = append(keys, "bytes="+g.bytes.String())
	}
	if g.seed != "" {
		keys = append(keys, "seed="+g.seed)
	}
	text = strings.TrimSpace(text)
	if len(keys) == 0 {
		return text
	}
	head, braced := strings.CutSuffix(text, "}")
	switch {
	case !braced:
		head += "{"
	case !strings.HasSuffix(strings.TrimSpace(head), "{"):
		head += ","
	}
	return head + strings.Join(keys, ",") + "}"
}

// genResult is what --json says.
type genResult struct {
	Workload string `json:"workload"`
	File     string `json:"file"`
	Format   string `json:"format"`
	Records  int64  `json:"records"`
	PageSize uint64 `json:"page_size"`
}

func (g *genFlags) run(ctx context.Context, text string, stdout, stderr io.Writer) (err error) {
	spec, err := workload.Parse(g.shape(text))
	if err != nil {
		return err
	}
	file := g.output
	if file == "-" {
		file = ""
	}
	if g.json && file == "" {
		return fmt.Errorf("--json describes a file: give one with -o")
	}
	fallback := ""
	if file == "" {
		fallback = "ids"
	}
	enc, err := chooseEncoding(g.to, file, fallback)
	if err != nil {
		return err
	}
	about := source{pageSize: spec.PageSize(), header: trace.Header{PageSize: spec.PageSize(), PageAddressed: spec.PageAddressed(),
		Generator: "tritier trace gen " + spec.String(), Writes: true, Requests: true}}
	if about.next, err = nextAccesses(ctx, enc, about.pageSize, spec.Open); err != nil {
		return err
	}
	r, err := spec.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close() // a generator has nothing to lose
	var done copied
	total, _ := spec.Accesses()
	stop := startProgress(stderr, spec.Name(), func() (int64, int64) { return done.records.Load(), int64(total) })
	defer stop()
	begun := time.Now()
	if err := writeTrace(ctx, file, stdout, enc, about, r, &done); err != nil {
		return err
	}
	stop()
	return g.report(stdout, stderr, genResult{spec.String(), file, enc.name, done.records.Load(), spec.PageSize()}, time.Since(begun))
}

// report says what was written, unless the trace itself went to stdout.
func (g *genFlags) report(stdout, stderr io.Writer, res genResult, took time.Duration) error {
	if g.json {
		return json.NewEncoder(stdout).Encode(res)
	}
	if res.File == "" {
		return nil
	}
	_, err := fmt.Fprintf(stderr, "%s: %s of %s in %s\n", report.Printable(res.File), plural(uint64(res.Records), "record"), res.Workload, units.FormatDuration(took))
	return err
}
