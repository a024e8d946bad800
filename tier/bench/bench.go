package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/layout"
)

// Config says what to measure. The zero value of a field takes its default.
type Config struct {
	GPU      *cuda.Context
	PageSize int    // bytes; 64 KiB
	Hits     uint64 // bytes of the array that hits are measured on; 4 GiB
	Faults   uint64 // bytes of T2 that faults are measured on; 4 GiB
	T1       uint64 // bytes of T1 while faults are measured; 512 MiB
	Runs     int    // of which the median counts; 5
	Warps    []int  // numbers of warps that fault; 1, 4, 16, 32, 64, 132, 264
	Each     int    // faults of each warp; 500
	Threads  int    // service threads of the drive that fills the tiers; 4
}

func (c Config) withDefaults() Config {
	set := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Hits, 4<<30)
	set(&c.Faults, 4<<30)
	set(&c.T1, 512<<20)
	if c.PageSize == 0 {
		c.PageSize = 64 << 10
	}
	if c.Runs == 0 {
		c.Runs = 5
	}
	if c.Warps == nil {
		c.Warps = []int{1, 4, 16, 32, 64, 132, 264}
	}
	if c.Each == 0 {
		c.Each = 500
	}
	c.Threads = max(c.Threads, 1)
	return c
}

// Result is one figure: bytes or reads in the median time, the fastest and slowest run,
// and the ratio to what it is measured against in the same run, 0 if to nothing.
type Result struct {
	Name    string        `json:"name"`
	Amount  uint64        `json:"amount"` // in Unit
	Unit    string        `json:"unit"`   // bytes or reads
	Median  time.Duration `json:"median_ns"`
	Fastest time.Duration `json:"fastest_ns"`
	Slowest time.Duration `json:"slowest_ns"`
	Against string        `json:"against,omitempty"`
	Ratio   float64       `json:"ratio,omitempty"`
	// Accesses of the engine in a run: of hits, one for each page that a warp reads at once.
	Accesses uint64 `json:"accesses,omitempty"`
	// How often T2's order was compacted in all runs, and how long that took.
	Compactions uint64        `json:"compactions,omitempty"`
	Compacting  time.Duration `json:"compacting_ns,omitempty"`
}

// Rate is the amount per second.
func (r Result) Rate() float64 { return float64(r.Amount) / r.Median.Seconds() }

// rig is an engine over a drive of memory, and the kernels.
type rig struct {
	c      Config
	hits   *hitKernels
	each   *eachKernels
	faults *faultKernels
	verify *verifyKernels
	s      *cuda.Stream
	out    *cuda.DeviceMemory // a sum and a count of failures
	drives []*drive.Drive
	e      *gpu.Engine
	pages  uint64
}

// open makes a rig of so many frames, slots and pages.
func open(ctx context.Context, c Config, policy string, frames, t2 int, pages uint64) (*rig, error) {
	r := &rig{c: c, pages: pages}
	if err := r.open(ctx, policy, frames, t2); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) open(ctx context.Context, policy string, frames, t2 int) (err error) {
	if r.hits, err = loadHitKernels(r.c.GPU); err != nil {
		return err
	}
	if r.each, err = loadEachKernels(r.c.GPU); err != nil {
		return err
	}
	if r.faults, err = loadFaultKernels(r.c.GPU); err != nil {
		return err
	}
	if r.verify, err = loadVerifyKernels(r.c.GPU); err != nil {
		return err
	}
	if r.s, err = r.c.GPU.NewStream(); err != nil {
		return err
	}
	if r.out, err = r.c.GPU.Alloc(16); err != nil {
		return err
	}
	uri := fmt.Sprintf("mem:%dKiB", (r.pages+1)*uint64(r.c.PageSize)>>10)
	if r.drives, err = drive.OpenList(ctx, uri, drive.Options{Access: drive.FreshOnly, Threads: r.c.Threads}); err != nil {
		return err
	}
	spec, err := placement.Parse(policy)
	if err != nil {
		return err
	}
	r.e, err = gpu.Open(ctx, gpu.Options{GPU: r.c.GPU, Drives: []bamio.Drive{{Name: uri, Controller: r.drives[0].Controller}},
		PageSize: r.c.PageSize, Pages: r.pages, Frames: frames, T2: t2, Spares: 2 * slices.Max(append(r.c.Warps, 256)), Policy: spec, Deadline: 20 * time.Second})
	if err != nil {
		return err
	}
	return r.fill(ctx)
}

func (r *rig) close() error {
	var errs []error
	if r.e != nil {
		errs = append(errs, r.e.Close())
	}
	errs = append(errs, drive.CloseAll(r.drives))
	if r.out != nil {
		errs = append(errs, r.out.Close())
	}
	if r.s != nil {
		errs = append(errs, r.s.Close())
	}
	if r.hits != nil {
		errs = append(errs, r.hits.Close())
	}
	if r.each != nil {
		errs = append(errs, r.each.Close())
	}
	if r.faults != nil {
		errs = append(errs, r.faults.Close())
	}
	if r.verify != nil {
		errs = append(errs, r.verify.Close())
	}
	return errors.Join(errs...)
}

// ref is the whole of the pages as elements of 1<<shift bytes.
func (r *rig) ref(shift uint8) (layout.ArrayRef, error) {
	return r.e.Ref(0, r.pages*uint64(r.c.PageSize)>>shift, shift, "bench")
}

// fill writes every page: its number, then a pattern.
func (r *rig) fill(ctx context.Context) error {
	ref, err := r.ref(0)
	if err != nil {
		return err
	}
	part := make([]byte, 64*r.c.PageSize)
	for p := uint64(0); p < r.pages; p += 64 {
		n := min(64, r.pages-p) * uint64(r.c.PageSize)
		for i := uint64(0); i < n; i += 8 {
			v := (p*uint64(r.c.PageSize) + i) * 0x9e3779b97f4a7c15
			if i%uint64(r.c.PageSize) == 0 {
				v = p + i/uint64(r.c.PageSize)
			}
			binary.LittleEndian.PutUint64(part[i:], v)
		}
		if err := r.e.Run(ctx, ref, tier.Write, p*uint64(r.c.PageSize), n, gpu.Buffer{Bytes: part[:n]}); err != nil {
			return err
		}
	}
	return nil
}

// grid has so many blocks of 256 threads for each multiprocessor.
func (r *rig) grid(each int) (cuda.LaunchConfig, error) {
	n, err := r.c.GPU.Device().Attribute(cuda.MultiprocessorCount)
	return cuda.LaunchConfig{Grid: cuda.D1(uint32(n * each)), Block: cuda.D1(256)}, err
}

// time runs a kernel as often as the configuration says, once more to warm up, and
// returns its times, the sum that it left and the failures that it counted.
func (r *rig) time(ctx context.Context, launch func() error) (times []time.Duration, sum uint64, err error) {
	for i := range r.c.Runs + 1 {
		took, s, err := r.once(ctx, launch)
		if err != nil {
			return nil, 0, err
		}
		if sum = s; i > 0 {
			times = append(times, took)
		}
	}
	slices.Sort(times)
	return times, sum, nil
}

func (r *rig) once(ctx context.Context, launch func() error) (took time.Duration, sum uint64, err error) {
	begun, err := r.c.GPU.NewEvent(true)
	if err != nil {
		return 0, 0, err
	}
	defer begun.Close()
	ended, err := r.c.GPU.NewEvent(true)
	if err != nil {
		return 0, 0, err
	}
	defer ended.Close()
	out := make([]byte, 16)
	if err := errors.Join(r.s.Memset8(r.out.Ptr(), 0, 16), begun.Record(r.s), launch(), ended.Record(r.s), r.e.Watch(ctx, ended),
		r.s.CopyToHost(out, r.out.Ptr()), r.s.Wait(ctx)); err != nil {
		return 0, 0, err
	}
	if n := binary.LittleEndian.Uint32(out[8:]); n != 0 {
		return 0, 0, fmt.Errorf("%d accesses failed or found another page's bytes", n)
	}
	took, err = ended.ElapsedSince(begun)
	return took, binary.LittleEndian.Uint64(out), err
}

func result(name string, amount uint64, unit string, times []time.Duration) Result {
	return Result{Name: name, Amount: amount, Unit: unit, Median: times[len(times)/2], Fastest: times[0], Slowest: times[len(times)-1]}
}
