package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/timed"
)

// What a curve runs over.
const (
	overSize     = "size"
	overDrives   = "drives"
	overInFlight = "in-flight"
)

// curveFlags are the flags of tritier model curve.
type curveFlags struct {
	paths    []string
	over     []string
	sizes    []string
	size     units.Bytes
	drives   int
	inFlight int
	write    bool
	iops     bool
	seed     uint64
	json     bool
	plot     string
}

func newModelCurveCommand() *cobra.Command {
	f := &curveFlags{size: 4 << 10}
	c := &cobra.Command{
		Use:   "curve NAME...",
		Short: "Draw what a model's access paths give over request size, drives or requests in flight",
		Long: `Run random requests in virtual time through a model's machine, by each of its access paths,
and show throughput, latency and what limits them: over the size of a request (--over size),
the number of drives or the number of requests in flight. As many requests are in flight as
the path keeps, unless --in-flight says otherwise. A payload that ends in host memory is not
copied to the GPU. All figures are modelled, never measured.`,
		Example: `  tritier model curve v100-4x980pro --path bam,spdk,gds --plot curve.svg
  tritier model curve v100-4x980pro --over drives --size 4KiB
  tritier model curve v100-4x980pro --path bam,bam-far --in-flight 2 --sizes 512,1KiB,2KiB,4KiB,8KiB --iops
  tritier model curve h100-16xgen5 --over in-flight --size 512 --json`,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&f.paths, "path", nil, "access `PATH`s: a list, or repeated (default: all of the model)")
	fs.StringSliceVar(&f.over, "over", []string{overSize}, "what the curve runs over: size, drives, in-flight; a list")
	fs.StringSliceVar(&f.sizes, "sizes", nil, "request `SIZE`s for --over size (default: 4KiB to 4MiB)")
	fs.Var(&f.size, "size", "request `SIZE` for --over drives and in-flight")
	fs.IntVar(&f.drives, "drives", 0, "`N` drives (default: as many as the model has)")
	fs.IntVar(&f.inFlight, "in-flight", 0, "`N` requests in flight (default: as many as the path keeps)")
	fs.BoolVar(&f.write, "write", false, "write instead of reading")
	fs.BoolVar(&f.iops, "iops", false, "draw requests per second also over the size")
	fs.Uint64Var(&f.seed, "seed", 1, "seed of the latencies")
	fs.BoolVar(&f.json, "json", false, "JSON instead of text")
	fs.StringVar(&f.plot, "plot", "", "also draw the curves to `FILE`, which ends in .svg or .png")
	return c
}

// curve is one panel: a model over one quantity, by several paths.
type curve struct {
	model  *servicetime.Model
	over   string
	points []timed.Measurement
}

func (f *curveFlags) run(c *cobra.Command, names []string) error {
	if err := f.refuseIdle(c.Flags()); err != nil {
		return err
	}
	curves, loads, err := f.plan(names)
	if err != nil {
		return err
	}
	if f.plot != "" {
		if f.plot == "-" {
			return errors.New("--plot writes a file: name one; standard output has the results")
		}
		if err := plotDocument.check(f.plot); err != nil {
			return fmt.Errorf("--plot %w", err)
		}
	}
	picture, err := openPlot(f.plot)
	if err != nil {
		return err
	}
	runErr := f.measure(c.Context(), curves, loads)
	if err := f.print(c.OutOrStdout(), curves, runErr == nil); err != nil {
		runErr = errors.Join(runErr, fmt.Errorf("standard output: %w", err))
	}
	if picture != nil && runErr != nil {
		return errors.Join(runErr, picture.discard())
	}
	if picture != nil {
		return finish(picture, func(w io.Writer) error { return drawCurves(w, plotFormat(f.plot), f, curves) })
	}
	return runErr
}

// measure fills the curves in, and leaves them as they are when ctx ends.
func (f *curveFlags) measure(ctx context.Context, curves []curve, loads [][]timed.Load) error {
	for i := range curves {
		for _, l := range loads[i] {
			if ctx.Err() != nil {
				return &interruption{"while running " + curves[i].model.Name + ": what is shown is not all"}
			}
			m, err := timed.Measure(curves[i].model, l)
			if err != nil {
				return err
			}
			curves[i].points = append(curves[i].points, m)
		}
	}
	return nil
}

// plan checks the flags and lists what is to be run.
func (f *curveFlags) plan(names []string) (curves []curve, loads [][]timed.Load, err error) {
	if err := f.check(names); err != nil {
		return nil, nil, err
	}
	sizes, err := f.readSizes()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		m, err := servicetime.Load(name)
		if err != nil {
			return nil, nil, firstLineOf(err)
		}
		paths := f.paths
		if len(paths) == 0 {
			paths = m.PathNames()
		}
		for i, over := range f.over {
			if slices.Contains(f.over[:i], over) {
				continue
			}
			var list []timed.Load
			for _, p := range paths {
				_, _, path, err := m.By(p)
				if err != nil {
					return nil, nil, fmt.Errorf("--path: %w", err)
				}
				list = append(list, f.loads(m, &path, p, over, sizes)...)
			}
			curves, loads = append(curves, curve{model: m, over: over}), append(loads, list)
		}
	}
	return curves, loads, nil
}

// maxCurveInFlight bounds the curves over the requests in flight.
const maxCurveInFlight = 1 << 14

// loads are the points of one path.
func (f *curveFlags) loads(m *servicetime.Model, path *servicetime.Path, name, over string, sizes []uint64) (list []timed.Load) {
	base := timed.Load{Path: name, Drives: f.drives, InFlight: f.inFlight, Size: uint64(f.size), Write: f.write, Seed: f.seed}
	drives := m.Drives.Count
	if f.drives > 0 {
		drives = f.drives
	}
	switch over {
	case overSize:
		for _, s := range sizes {
			l := base
			l.Size = s
			list = append(list, l)
		}
	case overDrives:
		for n := 1; n <= drives; n++ {
			l := base
			l.Drives = n
			list = append(list, l)
		}
	case overInFlight:
		for n := 1; n <= min(path.Outstanding(drives), maxCurveInFlight); n *= 2 {
			l := base
			l.InFlight = n
			list = append(list, l)
		}
	}
	return list
}

// refuseIdle refuses what was given and would change nothing.
func (f *curveFlags) refuseIdle(fs *pflag.FlagSet) error {
	for _, name := range []string{"drives", "in-flight"} {
		if flag := fs.Lookup(name); flag.Changed && flag.Value.String() == "0" {
			return fmt.Errorf("--%s 0: there is at least one", name)
		}
	}
	if fs.Changed("size") && !slices.ContainsFunc(f.over, func(over string) bool { return over != overSize }) {
		return errors.New("--size is for --over drives and in-flight; --sizes are the sizes of --over size")
	}
	return nil
}

func (f *curveFlags) check(names []string) error {
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{len(names) > 0, "model curve needs a model: a preset (tritier model list) or a YAML file"},
		{f.drives >= 0 && f.drives <= servicetime.MaxDrives, fmt.Sprintf("--drives %d is not from 1 to %d", f.drives, servicetime.MaxDrives)},
		{f.inFlight >= 0 && f.inFlight <= maxInFlight, fmt.Sprintf("--in-flight %d is not from 1 to %d", f.inFlight, maxInFlight)},
		{f.size > 0, "--size 0: a request has at least one byte"},
		{len(f.sizes) == 0 || slices.Contains(f.over, overSize), "--sizes are for --over size; --size is one size"},
	} {
		if !x.ok {
			return errors.New(x.what)
		}
	}
	for _, over := range f.over {
		if over != overSize && over != overDrives && over != overInFlight {
			return fmt.Errorf("--over %q: curves run over %s, %s or %s", over, overSize, overDrives, overInFlight)
		}
	}
	return nil
}

// readSizes are the request sizes, ascending.
func (f *curveFlags) readSizes() (sizes []uint64, err error) {
	for _, s := range f.sizes {
		n, err := units.ParseBytes(s)
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		if n == 0 {
			return nil, errors.New("--sizes 0: a request has at least one byte")
		}
		sizes = append(sizes, n)
	}
	if len(sizes) == 0 {
		for s := uint64(4 << 10); s <= 4<<20; s *= 2 {
			sizes = append(sizes, s)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

func (f *curveFlags) print(out io.Writer, curves []curve, complete bool) error {
	if f.json {
		points := []timed.Measurement{}
		for _, c := range curves {
			points = append(points, c.points...)
		}
		return writeJSON(out, map[string]any{"label": timed.Label, "points": points, "complete": complete})
	}
	some := slices.ContainsFunc(curves, func(c curve) bool { return len(c.points) > 0 })
	for i, c := range curves {
		if some && len(c.points) == 0 {
			continue // it was interrupted before this one
		}
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := printCurve(out, &c); err != nil {
			return err
		}
	}
	return nil
}

func printCurve(out io.Writer, c *curve) error {
	what := "random reads"
	if len(c.points) > 0 && c.points[0].Write {
		what = "random writes"
	}
	if _, err := fmt.Fprintf(out, "%s: %s; %s over %s, modelled, not measured\n", c.model.Name, c.model.Description, what, c.over); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "path\tsize\tdrives\tin flight\tGB/s\tIOPS\tmean us\tp99 us\tbottleneck\t") // Flush reports it
	for _, p := range c.points {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.2f\t%s\t%.1f\t%.1f\t%s\t\n", p.Path, units.ExactBytes(p.Size), p.Drives, p.InFlight, p.BytesPerSecond/1e9,
			strconv.FormatFloat(p.IOPS, 'g', 4, 64), p.Latency.MeanNS/1e3, float64(p.Latency.P99NS)/1e3, p.Bottleneck)
	}
	return w.Flush()
}
