package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/units"
)

// calibrateFlags are the flags of tritier calibrate.
type calibrateFlags struct {
	gpu        string
	runs       int
	bytes      units.Bytes
	seed       uint64
	out        string
	preset     string
	presetBase string
	json       bool
}

func newCalibrateCommand() *cobra.Command {
	f := &calibrateFlags{bytes: 512 << 20}
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure the copy paths of this machine's GPUs, so that copies take the fastest",
		Long: `Measure every way to copy scattered pages between host and GPU memory: pages of 512B to
2MiB, 1 to 1,024 at a time, to the device, to the host and both ways at once. The medians are
kept in a readable file for each GPU and driver, by which every program of tritier chooses the
path of a copy. It takes seconds; other users of the GPU or of its link spoil it. What each
path copied is compared with what was sent.

` + gpuHelp + `

--preset also writes a service-time preset for "tritier replay --model" and "nvme bench
--model": GPU and link as measured here, the drives those of --preset-base. Ctrl-C saves
nothing of the GPU that is being measured.`,
		Example: `  tritier calibrate
  tritier calibrate --gpu 0 --runs 15
  tritier calibrate --gpu 0000:01:00.0 -o h200.yaml
  tritier calibrate --gpu 0 --preset here.yaml --preset-base h200-4xgen5
  tritier calibrate --json | jq '.gpus[].link'`,
		Args: noArguments("calibrate"),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.gpu, "gpu", allGPUs, "which `GPU`: number, UUID, PCI address, or all, one after the other")
	fs.IntVar(&f.runs, "runs", 7, "runs of each path and number of pages, of which the median counts")
	fs.Var(&f.bytes, "bytes", "pinned host memory, and as much device memory, to copy between; less than 512MiB leaves the largest batches out")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the page numbers and of the data")
	fs.StringVarP(&f.out, "output", "o", "", "save to `FILE` instead of where programs look for it (one GPU only)")
	fs.StringVar(&f.preset, "preset", "", "also write a service-time preset to `FILE` (one GPU only)")
	fs.StringVar(&f.presetBase, "preset-base", defaultPresetBase, "`NAME` or file of the preset whose drives the new one has")
	fs.BoolVar(&f.json, "json", false, "JSON instead of text")
	return c
}

// calibrated is one GPU's result.
type calibrated struct {
	dev     *cuda.Device
	cal     *copyeng.Calibration
	took    time.Duration
	chosen  []chosenCurve
	file    string // where the calibration is
	preset  string // where the preset is; "" without one
	options *calibrateFlags
}

// run checks everything that can be wrong before it measures for seconds.
func (f *calibrateFlags) run(c *cobra.Command) error {
	if err := checkCopyFlags(f.runs, f.bytes); err != nil {
		return err
	}
	files, err := f.checkFiles(c)
	if err != nil {
		return err
	}
	devices, err := namedGPUs("calibrate", f.gpu)
	if err != nil {
		return err
	}
	if len(devices) > 1 && (f.out != "" || f.preset != "") {
		return fmt.Errorf("this machine has %d GPUs, and --output and --preset write one: say which by --gpu", len(devices))
	}
	var done []*calibrated
	for _, d := range devices {
		x, err := f.one(c.Context(), c.ErrOrStderr(), d, files)
		if err != nil {
			// What was saved of other GPUs is said before the error.
			return errors.Join(f.report(c.OutOrStdout(), done), err)
		}
		done = append(done, x)
	}
	return f.report(c.OutOrStdout(), done)
}

// one calibrates one GPU and saves what came of it.
func (f *calibrateFlags) one(ctx context.Context, stderr io.Writer, d *cuda.Device, files *calibrateFiles) (*calibrated, error) {
	x := &calibrated{dev: d, options: f}
	if err := files.open(d); err != nil {
		return nil, err
	}
	defer files.discard()
	err := inContext(d, func(c *cuda.Context) error {
		begun := time.Now()
		var err error
		if x.cal, err = f.measure(ctx, stderr, c); err != nil {
			return err
		}
		x.took = time.Since(begun)
		if x.chosen, err = chosenPaths(c, x.cal); err != nil {
			return err
		}
		if files.preset == nil {
			return nil
		}
		return f.makePreset(ctx, c, x.cal, files)
	})
	if ctx.Err() != nil {
		return nil, &interruption{fmt.Sprintf("while calibrating %s: nothing of it was saved", d)}
	}
	if err != nil {
		return nil, err
	}
	if x.file, x.preset, err = files.save(x.cal); err != nil {
		return nil, err
	}
	return x, nil
}

func (f *calibrateFlags) measure(ctx context.Context, stderr io.Writer, c *cuda.Context) (*copyeng.Calibration, error) {
	var done, total atomic.Int64
	defer startProgress(stderr, "calibrating "+c.Device().String(), func() (int64, int64) { return done.Load(), total.Load() })()
	return copyeng.Calibrate(ctx, c, copyeng.CalibrateOptions{
		Runs: f.runs, Bytes: uint64(f.bytes), Seed: f.seed,
		Progress: func(d, t int) { total.Store(int64(t)); done.Store(int64(d)) },
	})
}

// chosenCurve says which path the chooser takes as the pages of a batch grow.
type chosenCurve struct {
	direction string
	page      int
	spans     []pathSpan
}

// pathSpan is a range of numbers of pages that go by one path.
type pathSpan struct {
	From int          `json:"from_pages"`
	To   int          `json:"to_pages"`
	Path copyeng.Path `json:"path"`
}

// chosenPaths asks the chooser itself, number by number.
func chosenPaths(c *cuda.Context, cal *copyeng.Calibration) (list []chosenCurve, err error) {
	g, err := copyeng.OpenGPU(c, copyeng.GPUOptions{Calibration: cal})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	for _, curve := range cal.Curves {
		x := chosenCurve{direction: curve.Direction, page: curve.Page}
		last := curve.Pages[len(curve.Pages)-1]
		for n := curve.Pages[0]; n <= last; n++ {
			p := chosenPath(g, curve.Direction, curve.Page, n)
			if k := len(x.spans); k > 0 && x.spans[k-1].Path == p {
				x.spans[k-1].To = n
			} else {
				x.spans = append(x.spans, pathSpan{n, n, p})
			}
		}
		list = append(list, x)
	}
	return list, nil
}

func chosenPath(g *copyeng.GPU, direction string, page, n int) copyeng.Path {
	switch direction {
	case copyeng.ToDevice.String():
		return g.Choose(copyeng.ToDevice, page, n).Path
	case copyeng.ToHost.String():
		return g.Choose(copyeng.ToHost, page, n).Path
	}
	return g.ChooseExchange(page, n).Path
}

// text writes the spans as "1-3 memcpy-async, 4-11 batch, from 12 zero-copy".
func (x *chosenCurve) text() string {
	var parts []string
	for i, s := range x.spans {
		switch {
		case len(x.spans) == 1:
			return string(s.Path)
		case i == len(x.spans)-1:
			parts = append(parts, fmt.Sprintf("from %s %s", units.FormatCount(uint64(s.From)), s.Path))
		case s.From == s.To:
			parts = append(parts, fmt.Sprintf("%d %s", s.From, s.Path))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d %s", s.From, s.To, s.Path))
		}
	}
	return strings.Join(parts, ", ")
}
