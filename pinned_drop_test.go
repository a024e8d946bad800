package tritier_test

import (
	"errors"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda/cudafake"
)

// TestPinsConcernTheirArray: while pages of one array are pinned the invariants hold, and another
// array can be dropped, with either engine; the one that is pinned cannot.
func TestPinsConcernTheirArray(t *testing.T) {
	t.Run("host", func(t *testing.T) { pinnedDrop(t, tritier.Config{GPU: "none"}) })
	t.Run("gpu", func(t *testing.T) {
		onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
			pinnedDrop(t, tritier.Config{GPU: "0", Engine: tritier.EngineGPU})
		})
	})
}

func pinnedDrop(t *testing.T, c tritier.Config) {
	c.Store, c.PageSize, c.T1, c.Buffers, c.Policy = "mem:8MiB", page, 8*page, 8*page, "bypass{t1=clock}"
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := tritier.NewArray[uint64](t.Context(), m, "a", 4*page/8)
	b, errB := tritier.NewArray[uint64](t.Context(), m, "b", 4*page/8)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	p, err := a.Pin(t.Context(), 0, page/8+1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Pin(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Write(t.Context(), 0, []uint64{1}), m.Check(), m.DropArray(t.Context(), "b"), m.Check()); err != nil {
		t.Errorf("beside a pinned array: %v", err)
	}
	for _, pin := range []*tritier.Pinned[uint64]{p, q} {
		if err := m.DropArray(t.Context(), "a"); err == nil {
			t.Fatal("an array was dropped that is pinned")
		}
		if err := pin.Unpin(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(m.DropArray(t.Context(), "a"), m.Check()); err != nil {
		t.Error(err)
	}
	closeMemory(t, m)
}
