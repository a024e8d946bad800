package tritier_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestScatterBesideClose: what a call has written that waited while Close flushed is stored, or
// the call is refused, with either engine.
func TestScatterBesideClose(t *testing.T) {
	t.Run("host", func(t *testing.T) { besideClose(t, tritier.Config{GPU: "none"}) })
	t.Run("gpu", func(t *testing.T) {
		onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
			besideClose(t, tritier.Config{GPU: "0", Engine: tritier.EngineGPU})
		})
	})
}

func besideClose(t *testing.T, c tritier.Config) {
	var once sync.Once
	var wait sync.WaitGroup
	var late error
	begin := func() {}
	f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
		const flush = 0
		if byte(c.Opcode) == flush {
			once.Do(begin)
		}
		return soft.Fault{}
	}}
	c.Store = "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
	c.Create, c.PageSize, c.T1, c.Buffers, c.Policy = true, page, 8*page, 8*page, "bypass{t1=clock}"
	c.Faults = func(int) soft.Faults { return f }
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 4*page/8)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint64, a.Len())
	want[0] = 1
	if err := a.Write(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	begin = func() {
		wait.Go(func() { late = a.Scatter(t.Context(), []uint64{0}, []uint64{2}) })
		time.Sleep(100 * time.Millisecond) // until it waits for the flush
	}
	f.on.Store(true)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wait.Wait()
	if late == nil {
		want[0] = 2
	} else if !errors.Is(late, tritier.ErrClosed) {
		t.Errorf("the call beside Close: %v", late)
	}
	compareStored(t, tritier.Config{Store: c.Store, GPU: "none", T1: 8 * page, Buffers: 8 * page}, want)
}

// TestPinnedBesideClose: who looks at pins while Close frees T1 gets what was pinned or nothing, with
// either engine, and so does who was overtaken by it on the way.
func TestPinnedBesideClose(t *testing.T) {
	t.Run("host", func(t *testing.T) { pinnedBesideClose(t, tritier.Config{GPU: "none"}) })
	t.Run("gpu", func(t *testing.T) {
		onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
			pinnedBesideClose(t, tritier.Config{GPU: "0", Engine: tritier.EngineGPU})
		})
	})
}

func pinnedBesideClose(t *testing.T, c tritier.Config) {
	c.Store, c.PageSize, c.T1, c.Buffers, c.Policy = "mem:8MiB", page, 8*page, 8*page, "bypass{t1=clock}"
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 4*page/8)
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Pin(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	begun := make(chan struct{})
	wait.Go(func() {
		close(begun)
		for {
			values, addresses := p.Values(), p.Addresses()
			m.Stats()
			m.Describe()
			m.ServiceCPU()
			if values == nil && addresses == nil {
				return
			}
		}
	})
	<-begun
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wait.Wait()
	tritier.Frames(m)
}
