package bamio_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// rig is a software GPU and software drives. What the fake GPU sees go wrong and
// a driver would not report fails the test, as do leaks.
type rig struct {
	t     *testing.T
	fake  *cudafake.GPU
	gpu   *cuda.Context
	soft  []*soft.Controller
	ctrls []*libnvm.Controller
	lost  bool // the context was lost on purpose
	gone  bool // drives were lost on purpose
	fail  atomic.Pointer[failure]
	base  int // what lives with the context alone
}

// failure is a call of the driver that is to fail.
type failure struct {
	symbol cuda.Symbol
	number int64 // which call of it
	met    atomic.Bool
}

// failing is a driver of which one call fails.
type failing struct {
	cuda.Backend
	r *rig
	n func(cuda.Symbol) int
}

func (b failing) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	f := b.r.fail.Load()
	if f != nil && f.symbol == s && int64(b.n(s))+1 == f.number && !f.met.Swap(true) {
		return cuda.OutOfMemory
	}
	return b.Backend.Call(s, args)
}

func newRig(t *testing.T, fake ...cudafake.Option) *rig {
	t.Helper()
	return newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return g }, fake...)
}

func newRigOver(t *testing.T, wrap func(*cudafake.GPU) cuda.Backend, fake ...cudafake.Option) *rig {
	t.Helper()
	r := &rig{t: t, fake: cudafake.New(fake...)}
	t.Logf("fake GPU, seed %d", r.fake.Seed())
	d, err := cuda.OpenBackend(failing{wrap(r.fake), r, r.fake.Calls})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	if r.gpu, err = dev.Retain(); err != nil {
		t.Fatal(err)
	}
	r.base = len(r.fake.Leaks())
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
	// Before the context is closed, which would free what is left.
	if live := r.fake.Leaks(); len(live) != r.base && !r.lost {
		r.t.Errorf("live after all was closed: %v", live)
	}
	if err := r.gpu.Close(); err != nil && !r.lost {
		r.t.Errorf("close context: %v", err)
	}
	if leaks := r.fake.Leaks(); len(leaks) > 0 {
		r.t.Errorf("leaks: %v", leaks)
	}
	if v := r.fake.Violations(); len(v) > 0 && !r.lost {
		r.t.Errorf("violations: %v", v)
	}
	if err := r.fake.Close(); err != nil {
		r.t.Error(err)
	}
}

// drive adds a drive of so many bytes. It is closed after what the test defers.
func (r *rig) drive(size int64, cfg soft.Config) bamio.Drive {
	r.t.Helper()
	m, err := soft.NewMemory(size)
	if err != nil {
		r.t.Fatal(err)
	}
	block := 512
	if len(cfg.Namespaces) > 0 {
		block = cfg.Namespaces[0].BlockSize
	}
	cfg.Namespaces = []soft.NamespaceConfig{{Backend: m, BlockSize: block}}
	s, err := soft.New(context.Background(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.soft = append(r.soft, s)
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Errorf("close soft controller: %v", err)
		}
	})
	return bamio.Drive{Name: "mem", Controller: r.controller(s)}
}

func (r *rig) controller(tr libnvm.Transport) *libnvm.Controller {
	r.t.Helper()
	c, err := libnvm.Open(tr, libnvm.Config{AdminTimeout: 2 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	r.ctrls = append(r.ctrls, c)
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil && !r.gone {
			r.t.Errorf("close controller: %v", err)
		}
	})
	return c
}

// open opens an engine and closes it at the end of the test.
func (r *rig) open(o bamio.Options) *bamio.Engine {
	r.t.Helper()
	o.GPU = r.gpu
	e, err := bamio.Open(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		err := e.Close()
		var held *bamio.HeldError
		if r.gone && (!errors.As(err, &held) || len(held.Drives) != 1 || len(e.Payload()) == 0) {
			r.t.Errorf("closing with a drive that is gone gives %v and leaves %d bytes", err, len(e.Payload()))
		}
		if r.gone {
			err = nil
			for _, c := range r.ctrls {
				_ = c.Close() // of a drive that is gone, which is the point
			}
			for _, s := range r.soft {
				err = errors.Join(err, s.Close())
			}
			err = errors.Join(err, e.Close())
			if len(e.Payload()) != 0 {
				r.t.Error("the payload stays although the drive is closed")
			}
		}
		if err != nil && !r.lost {
			r.t.Errorf("close engine: %v", err)
		}
	})
	return e
}

// ptx is a kernel that takes the engine; what it does is Go.
const ptx = `
.version 6.3
.target sm_70
.address_size 64
.visible .entry gpu_io(.param .u64 engine)
{
	ret;
}
`

// launched is a kernel in flight.
type launched struct {
	r      *rig
	module *cuda.Module
	stream *cuda.Stream
	event  *cuda.Event
	result chan error
}

// launch runs f as a kernel.
func (r *rig) launch(e *bamio.Engine, f func(d *bamiofake.Device) error) *launched {
	r.t.Helper()
	k := &launched{r: r, result: make(chan error, 1)}
	r.fake.RegisterKernel("gpu_io", func(l *cudafake.Launch) error {
		d, err := bamiofake.Open(l, l.U64(0))
		if err == nil {
			err = f(d)
		}
		k.result <- err
		return nil
	})
	fail := func(err error) {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	var err error
	k.module, err = r.gpu.LoadModule([]byte(ptx))
	fail(err)
	fn, err := k.module.Function("gpu_io")
	fail(err)
	k.stream, err = r.gpu.NewStream()
	fail(err)
	k.event, err = r.gpu.NewEvent(false)
	fail(err)
	fail(fn.LaunchArgs(k.stream, cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(32)}, e.Ptr()))
	fail(k.event.Record(k.stream))
	return k
}

// end frees what launch has made, once the kernel has ended.
func (k *launched) end() error {
	return errors.Join(k.event.Close(), k.stream.Close(), k.module.Close())
}

// run runs f as a kernel under Watch, and returns both results.
func (r *rig) run(e *bamio.Engine, f func(d *bamiofake.Device) error) (watched, kernel error) {
	r.t.Helper()
	k := r.launch(e, f)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	watched = e.Watch(ctx, k.event)
	select {
	case kernel = <-k.result:
	case <-ctx.Done():
		r.t.Fatal("the kernel did not end")
	}
	if err := k.end(); err != nil {
		r.t.Error(err)
	}
	return watched, kernel
}

// must is run without errors.
func (r *rig) must(e *bamio.Engine, f func(d *bamiofake.Device) error) {
	r.t.Helper()
	watched, kernel := r.run(e, f)
	if err := errors.Join(watched, kernel); err != nil {
		r.t.Fatalf("%+v", err)
	}
}

// threads runs f n times at once, as threads of a kernel, and joins the errors.
func threads(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// shift takes memory of controller i, more with each, so that what comes after it
// has other addresses there than in the controllers before.
func (r *rig) shift(i int) {
	r.t.Helper()
	for range i {
		other, err := unix.Mmap(-1, 0, libnvm.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.soft[i].Map(other); err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.soft[i].Alloc(libnvm.PageSize); err != nil {
			r.t.Fatal(err)
		}
	}
}
