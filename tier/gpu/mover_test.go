package gpu_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/layout"
)

// patient has warps wait for the CPU however busy the machine is.
func patient(t *testing.T, ring int) { t.Cleanup(gpu.SetMoves(ring, time.Minute)) }

// TestMoverContents: the same histories with moves by the copy engine.
func TestMoverContents(t *testing.T) { contents(t, gpu.MovesCopyEngine) }

// TestMoverParity: moves by the copy engine change no count, and move every page.
func TestMoverParity(t *testing.T) {
	patient(t, 64)
	parity(t, gpu.MovesCopyEngine, func(t *testing.T, w *world) {
		s := w.stats(t)
		for d, by := range s.Mover.Pages {
			for way, n := range by {
				if (way == layout.ByCopyEngine) != (n > 0) && !(way == layout.ByCopyEngine && d == layout.ToHost) {
					t.Errorf("%d pages in direction %d went by way %d", n, d, way)
				}
			}
		}
		if out := s.Mover.Pages[layout.ToHost][layout.ByCopyEngine]; out < s.Device.BytesDemoted/page || s.Mover.CPU <= 0 || s.Mover.Last != nil {
			t.Errorf("%d pages went to the host, %d were demoted; %+v", out, s.Device.BytesDemoted/page, s.Mover)
		}
	})
}

func (w *world) stats(t *testing.T) gpu.Stats {
	t.Helper()
	s, err := w.Stats(t.Context())
	must(t, err)
	return s
}

// ways are the pages that went by a way, in both directions.
func (w *world) ways(t *testing.T, way int) uint64 {
	t.Helper()
	s := w.stats(t)
	return s.Mover.Pages[layout.ToDevice][way] + s.Mover.Pages[layout.ToHost][way]
}

// filled is an engine of one warp whose pages 0 to 6 are dirty, in T1 (4) and T2 (3), with
// i + 1 as the first byte of page i.
func filled(t *testing.T, ctx *cuda.Context, s setup) (*world, layout.ArrayRef) {
	t.Helper()
	s.policy, s.frames, s.t2, s.pages, s.parity, s.moves = policies[1], 4, 3, 64, true, gpu.MovesCopyEngine
	s.spares, s.curves = max(s.spares, 6), curves(1, 2, 1, 2) // one copy is one call, which tap sees
	w := newWorld(t, ctx, s)
	ref := w.ref(t, 0, 64*page, 0)
	must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 7), gpu.Buffer{Bytes: []byte{1, 2, 3, 4, 5, 6, 7}}))
	return w, ref
}

// intact sees to it that nothing that filled has written is lost.
func (w *world) intact(t *testing.T, ref layout.ArrayRef) {
	t.Helper()
	got := make([]byte, 7)
	must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 7), gpu.Buffer{Bytes: got}))
	if !slices.Equal(got, []byte{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("pages have %v", got)
	}
	must(t, w.Check(t.Context()))
}

// TestMoverFails: where a copy cannot be started, or fails, the warp copies itself, and the
// reason is known.
func TestMoverFails(t *testing.T) {
	patient(t, 64)
	onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
		w, ref := filled(t, ctx, setup{})
		refused := uint64(0)
		for d := range 2 {
			for name, fail := range map[string]func() (cuda.Result, bool){
				"started": func() (cuda.Result, bool) { return cuda.InvalidValue, true },
				"done":    func() (cuda.Result, bool) { p.FailAsync(cuda.InvalidValue); return 0, false },
			} {
				p.arm(d, fail)
				w.intact(t, ref)
				refused++
				if n := w.ways(t, layout.Refused); n != refused || w.stats(t).Mover.Last == nil {
					t.Errorf("a copy in direction %d that is not %s: %d were refused, want %d; %v", d, name, n, refused, w.stats(t).Mover.Last)
				}
			}
		}
		w.close(t)
	})
}

// TestMoverStopped: without anybody to serve them, requests are withdrawn in time.
func TestMoverStopped(t *testing.T) {
	defer gpu.SetMoves(64, 2*time.Millisecond)()
	onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
		w, ref := filled(t, ctx, setup{})
		w.StopAttendant()
		by, not := w.ways(t, layout.ByCopyEngine), w.ways(t, layout.NotTaken)
		within(t, soon, "accesses without an attendant", func() { w.intact(t, ref) })
		if now := w.ways(t, layout.NotTaken); w.ways(t, layout.ByCopyEngine) != by || now == not {
			t.Errorf("%d requests were not taken, after %d before", now, not)
		}
		w.close(t)
	})
}

// TestMoverRingFull: who finds no place in the ring does not wait for one.
func TestMoverRingFull(t *testing.T) {
	patient(t, 1)
	onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 8, t2: 16, spares: 8, pages: 64, moves: gpu.MovesCopyEngine})
		want, got := make([]byte, 64*page), make([]byte, 64*page)
		fill(rand.New(rand.NewPCG(9, 9)), want)
		ref := w.ref(t, 0, 64*page, 0)
		must(t, w.Run(t.Context(), ref, tier.Write, 0, 64*page, gpu.Buffer{Bytes: want}))
		p.DelayOps(3 * time.Millisecond)
		for range 5 { // three warps at once
			must(t, w.Run(t.Context(), ref, tier.Read, 0, 64*page, gpu.Buffer{Bytes: got}))
			if !slices.Equal(got, want) {
				t.Fatal("the pages differ")
			}
		}
		p.DelayOps(0)
		if full, by := w.ways(t, layout.RingFull), w.ways(t, layout.ByCopyEngine); full == 0 || by == 0 {
			t.Errorf("%d moves found the ring full, %d were done by request", full, by)
		}
		w.close(t)
	})
}

// TestMoverHangs: a copy that does not end is an error for its page, which is where it was;
// its frame or slot is used again once it has ended. Meanwhile warps copy themselves.
func TestMoverHangs(t *testing.T) {
	patient(t, 64)
	for name, c := range map[string]struct {
		d    int
		call func(w *world, ref layout.ArrayRef, round uint64) error
	}{
		"fetch": {layout.ToDevice, func(w *world, ref layout.ArrayRef, round uint64) error {
			return w.Elements(t.Context(), ref, tier.Read, pagesOf(40+round, 1), gpu.Buffer{Bytes: make([]byte, 1)})
		}},
		"promotion": {layout.ToDevice, func(w *world, ref layout.ArrayRef, _ uint64) error {
			return w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 1), gpu.Buffer{Bytes: make([]byte, 1)})
		}},
		"demotion": {layout.ToHost, func(w *world, ref layout.ArrayRef, round uint64) error {
			return w.Elements(t.Context(), ref, tier.Read, pagesOf(40+round, 1), gpu.Buffer{Bytes: make([]byte, 1)})
		}},
		"swap": {layout.ToHost, func(w *world, ref layout.ArrayRef, _ uint64) error {
			return w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 1), gpu.Buffer{Bytes: make([]byte, 1)})
		}},
		"flush": {layout.ToHost, func(w *world, _ layout.ArrayRef, _ uint64) error { return w.Flush(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
				w, ref := filled(t, ctx, setup{deadline: 2 * time.Second})
				defer p.Release()
				for round := range uint64(3) { // what is lost is found again each time
					p.arm(c.d, func() (cuda.Result, bool) { p.Hang(); return 0, false })
					var ae *gpu.AccessError
					if err := c.call(w, ref, round); !errors.Is(err, gpu.ErrMove) || !errors.As(err, &ae) || ae.Failed != 1 {
						t.Errorf("a copy that hangs, round %d: %v", round, err)
					}
					if n := w.ways(t, layout.Unanswered); n != round+1 || p.Hanging() != 1 {
						t.Errorf("%d moves were not answered, %d copies hang", n, p.Hanging())
					}
					must(t, w.Check(t.Context()))
					refused := w.ways(t, layout.Refused)
					w.intact(t, ref)
					if w.ways(t, layout.Refused) == refused {
						t.Error("no request was refused while a copy hangs")
					}
					over := w.Over()
					p.Release()
					for end := time.Now().Add(soon); w.Over() == over; time.Sleep(time.Millisecond) {
						if time.Now().After(end) {
							t.Fatal("nobody says that the copy has ended")
						}
					}
					w.whole(t, ref)
					must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 7), gpu.Buffer{Bytes: []byte{1, 2, 3, 4, 5, 6, 7}}))
				}
				w.close(t)
			})
		})
	}
}

// whole sees to it that T1 and T2 have their sizes back, in time.
func (w *world) whole(t *testing.T, ref layout.ArrayRef) {
	t.Helper()
	var err error
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 20), gpu.Buffer{Bytes: make([]byte, 20)}))
		must(t, w.Flush(t.Context()))
		if err = w.Whole(t.Context()); err == nil {
			w.intact(t, ref)
			return
		}
	}
	t.Error(err)
}

// TestCloseWhileMoving: an engine whose copy hangs is not closed, and one that warps move
// pages of is.
func TestCloseWhileMoving(t *testing.T) {
	patient(t, 64)
	onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
		w, ref := filled(t, ctx, setup{deadline: time.Second})
		p.arm(layout.ToHost, func() (cuda.Result, bool) { p.Hang(); return 0, false })
		if err := w.Elements(t.Context(), ref, tier.Read, pagesOf(40, 1), gpu.Buffer{Bytes: make([]byte, 1)}); !errors.Is(err, gpu.ErrMove) {
			t.Fatalf("a copy that hangs: %v", err)
		}
		if err := w.Engine.Close(); err == nil || !strings.Contains(err.Error(), "copies between its tiers have not ended") {
			t.Errorf("an engine is closed while a copy of it hangs: %v", err)
		}
		p.Release()
		must(t, errors.Join(w.Engine.Close(), drive.CloseAll(w.drives)))
	})
	onTap(t, func(t *testing.T, ctx *cuda.Context, p *tap) {
		w, ref := filled(t, ctx, setup{spares: 8})
		s, err := ctx.NewStream()
		must(t, err)
		m, err := ctx.AllocHost(1<<20, 0)
		must(t, err)
		clear(m.Bytes())
		const n = 1 << 16
		for i := range n {
			binary.LittleEndian.PutUint64(m.Bytes()[8*i:], uint64(i%64)*page)
		}
		values, report := m.DevicePtr().Add(8*n), m.DevicePtr().Add(10*n)
		before := w.ways(t, layout.ByCopyEngine)
		must(t, w.Launch(s, ref, tier.Read, 3, m.DevicePtr(), n, values, report))
		ev, err := ctx.NewEvent(false)
		must(t, err)
		must(t, ev.Record(s))
		for w.ways(t, layout.ByCopyEngine) < before+20 {
			time.Sleep(time.Millisecond)
		}
		for err = w.Engine.Close(); err != nil; err = w.Engine.Close() {
			var busy *bamio.BusyError
			if !errors.As(err, &busy) {
				t.Fatal(err)
			}
		}
		if done, err := ev.Query(); !done || err != nil {
			t.Errorf("the kernel has ended: %v, %v", done, err)
		}
		must(t, errors.Join(ev.Close(), s.Close(), m.Close(), drive.CloseAll(w.drives)))
	})
}
