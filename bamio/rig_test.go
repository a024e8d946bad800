package bamio_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
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
}

func newRig(t *testing.T, fake ...cudafake.Option) *rig {
	t.Helper()
	return newRigOver(t, func(g *cudafake.GPU) cuda.Backend { return g }, fake...)
}

func newRigOver(t *testing.T, wrap func(*cudafake.GPU) cuda.Backend, fake ...cudafake.Option) *rig {
	t.Helper()
	r := &rig{t: t, fake: cudafake.New(fake...)}
	t.Logf("fake GPU, seed %d", r.fake.Seed())
	d, err := cuda.OpenBackend(wrap(r.fake))
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
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
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
		if r.gone && errors.As(err, &held) {
			for _, s := range r.soft {
				err = errors.Join(s.Close())
			}
			err = errors.Join(err, e.Close())
		}
		if err != nil && !r.lost {
			r.t.Errorf("close engine: %v", err)
		}
	})
	return e
}
