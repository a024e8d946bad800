package copyeng

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tritier/tritier/cuda"
)

// CalibrateOptions are the choices of Calibrate. The zero value is good.
type CalibrateOptions struct {
	// Runs of each path and cell, of which the median counts; 0 is 7. Batches
	// of at most 4 MiB run five times as often.
	Runs int
	// Bytes of pinned host memory and of device memory to copy between, a
	// multiple of 4 MiB up to 64 GiB; 0 is 512 MiB. Less leaves the largest
	// cells out.
	Bytes uint64
	// Seed of the page numbers.
	Seed uint64
	// Progress is told how many cells of all are done. May be nil.
	Progress func(done, total int)
}

// What is measured: page sizes and numbers of pages.
var (
	gridPages = []int{512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 2 << 20}
	gridCount = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// A path that needs this many times the best one's time, from this many pages
// on, is not measured at larger numbers: its curve only gets worse there.
const (
	hopeless      = 4
	hopelessPages = 16
)

// Small batches vary more, from one run to the next and among the paths, and
// cost little: they run more often.
const (
	smallBytes = 4 << 20
	smallRuns  = 5
)

// Calibrate measures every path of the GPU: 6 page sizes, up to 1,024 pages,
// each way and both ways at once. It takes seconds, and gigabytes of pinned
// memory move: other users of the link spoil it. Every path is verified.
func Calibrate(ctx context.Context, c *cuda.Context, opts CalibrateOptions) (*Calibration, error) {
	if opts.Runs <= 0 {
		opts.Runs = 7
	}
	if opts.Bytes == 0 {
		opts.Bytes = 512 << 20
	}
	if err := errors.Join(checkBenchSize(opts.Bytes), checkRuns(opts.Runs)); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	base, err := Builtin()
	if err != nil {
		return nil, err
	}
	g, err := OpenGPU(c, GPUOptions{Calibration: base})
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.Close() }() // nothing is in flight after the bench
	b, err := NewBench(ctx, g, opts.Bytes, opts.Seed)
	if err != nil {
		return nil, fmt.Errorf("calibrate %s: %w", c.Device(), err)
	}
	defer func() { _ = b.Close() }() // its memory was only measured with
	dev := c.Device()
	cal := &Calibration{
		Version: CalibrationVersion, Driver: dev.Driver().Version().String(), Measured: time.Now().UTC().Truncate(time.Second),
		GPU: GPUName{Name: dev.Name(), UUID: dev.UUID(), PCI: dev.PCIAddress()},
	}
	run := calibration{ctx: ctx, bench: b, gpu: g, opts: opts, cal: cal}
	if err := run.all(); err != nil {
		return nil, fmt.Errorf("calibrate %s: %w", dev, err)
	}
	return cal, cal.Check()
}

// calibration is one run of Calibrate.
type calibration struct {
	ctx         context.Context
	bench       *Bench
	gpu         *GPU
	opts        CalibrateOptions
	cal         *Calibration
	done, total int
}

func (r *calibration) all() error {
	r.total = directions*len(gridPages)*len(gridCount) + 1
	link, err := r.bench.Link(r.ctx, r.opts.Runs)
	if err != nil {
		return err
	}
	r.cal.Link = link
	r.step()
	for _, d := range []Direction{ToDevice, ToHost, bothWays} {
		if d == bothWays { // its sequential path takes what was just measured
			r.gpu.table = newCurveTable(r.cal, "being calibrated", r.gpu.usable)
		}
		for _, page := range gridPages {
			if err := r.curve(d, page); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *calibration) step() {
	r.done++
	if r.opts.Progress != nil {
		r.opts.Progress(r.done, r.total)
	}
}

// curve measures one direction and page size.
func (r *calibration) curve(d Direction, page int) error {
	c := Curve{Direction: d.String(), Page: page, Micros: map[Path][]float64{}}
	var paths []Path
	for _, p := range pathsOf(d) {
		if r.gpu.usable(p) {
			paths = append(paths, p)
		}
	}
	for _, n := range gridCount {
		if r.bench.fits(page, n) && (d != bothWays || r.bench.fits(page, 2*n)) {
			samples, err := r.cell(d, page, n, paths)
			if err != nil {
				return err
			}
			c.Pages = append(c.Pages, n)
			paths = c.record(samples, n)
		}
		r.step()
	}
	if len(c.Pages) > 0 {
		r.cal.Curves = append(r.cal.Curves, c)
	}
	return nil
}

func (r *calibration) cell(d Direction, page, n int, paths []Path) ([]Sample, error) {
	runs := r.opts.Runs
	if page*n <= smallBytes {
		runs *= smallRuns
	}
	if d == bothWays {
		if err := r.bench.VerifyExchange(r.ctx, page, n, paths); err != nil {
			return nil, err
		}
		return r.bench.Exchange(r.ctx, page, n, paths, runs)
	}
	return r.bench.Cell(r.ctx, d, page, n, paths, runs)
}

// record keeps the medians, and returns the paths worth measuring further.
func (c *Curve) record(samples []Sample, n int) []Path {
	best := samples[0].Median()
	for _, s := range samples {
		best = min(best, s.Median())
	}
	var keep []Path
	for _, s := range samples {
		c.Micros[s.Path] = append(c.Micros[s.Path], float64(s.Median())/1e3)
		if n < hopelessPages || s.Median() < hopeless*best {
			keep = append(keep, s.Path)
		}
	}
	return keep
}

// Link measures large plain copies: the rate that scattered ones are held to.
func (b *Bench) Link(ctx context.Context, runs int) (Link, error) {
	if err := errors.Join(b.checkShape(MaxPage, 1, 1), checkRuns(runs)); err != nil {
		return Link{}, err
	}
	half := min(b.host.size/2, 1<<30) // within one registration of the pool
	one := func(into, back bool) func() error {
		return func() error { return b.large(half, into, back) }
	}
	var rates [3]float64
	for i, f := range []func() error{one(true, false), one(false, true), one(true, true)} {
		s := Sample{}
		for k := range runs + 1 {
			took, err := b.time(ctx, f)
			if err != nil {
				return Link{}, err
			}
			if k > 0 { // the first warms up
				s.Runs = append(s.Runs, took)
			}
		}
		rates[i] = math.Round(100*float64(half)/float64(s.Median())) / 100
	}
	return Link{ToDevice: rates[0], ToHost: rates[1], BothWays: 2 * rates[2]}, nil
}

// large copies the lower half of the spaces to the device and the upper half
// back, at once.
func (b *Bench) large(half uint64, into, back bool) error {
	if into && back {
		if err := b.queue.branch(1); err != nil {
			return err
		}
		if err := b.queue.sides[0].stream.CopyDtoH(b.host.at(half), cuda.Ptr(b.device.addr+half), half); err != nil {
			return err
		}
		if err := b.queue.stream.CopyHtoD(cuda.Ptr(b.device.addr), b.host.at(0), half); err != nil {
			return err
		}
		return b.queue.join(1)
	}
	if into {
		return b.queue.stream.CopyHtoD(cuda.Ptr(b.device.addr), b.host.at(0), half)
	}
	return b.queue.stream.CopyDtoH(b.host.at(0), cuda.Ptr(b.device.addr), half)
}
