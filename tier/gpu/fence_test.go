package gpu_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// holder is a store that can keep writes back, and carry them out after others that
// were sent later.
type holder struct {
	soft.Backend
	mu   sync.Mutex
	hold bool
	n    int // writes that are kept back
}

// set says whether writes are kept from now on; those kept so far stay so. land has
// them carried out.
func (h *holder) set(hold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
}

func (h *holder) kept() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *holder) land() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n = 0
}

func (h *holder) Open() (soft.Channel, error) {
	c, err := h.Backend.Open()
	return &holding{Channel: c, h: h}, err
}

type holding struct {
	soft.Channel
	h    *holder
	kept []*soft.Op
}

func (c *holding) Start(op *soft.Op) bool {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if op.Kind == soft.OpWrite && c.h.hold {
		c.h.n++
		c.kept = append(c.kept, op)
		return false
	}
	return c.Channel.Start(op)
}

func (c *holding) Reap(done []*soft.Op) []*soft.Op {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.n == 0 {
		for _, op := range c.kept {
			c.Channel.Start(op) // memory finishes it at once
			done = append(done, op)
		}
		c.kept = nil
	}
	return c.Channel.Reap(done)
}

// heldEngine is an engine over a drive whose writes can be held back, and what closes
// both.
func heldEngine(t *testing.T, ctx *cuda.Context, policy string, frames, t2 int) (*gpu.Engine, *holder, func()) {
	t.Helper()
	const pages = 64
	m, err := soft.NewMemory((pages + 16) * page)
	must(t, err)
	h := &holder{Backend: m}
	s, err := soft.New(t.Context(), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: h}}})
	must(t, err)
	c, err := libnvm.Open(s, libnvm.Config{})
	must(t, err)
	p, err := placement.Parse(policy)
	must(t, err)
	e, err := gpu.Open(t.Context(), gpu.Options{GPU: ctx, PageSize: page, Pages: pages, Offset: 8 * page, Frames: frames, T2: t2, Spares: 8, Policy: p,
		Queues: 4, Deadline: 2 * time.Second, Drives: []bamio.Drive{{Name: "held", Controller: c}}})
	if err != nil {
		t.Fatal(errors.Join(err, c.Close(), s.Close()))
	}
	return e, h, func() {
		h.set(false)
		h.land()
		if err := errors.Join(e.Check(t.Context()), e.Close(), c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestLateWrites: writes that timed out are carried out after their pages were changed
// and flushed again, whether a flush sent them or an eviction. Until then no call
// claims that the pages are stored; in the end the newest bytes are.
func TestLateWrites(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		t2           int
		evict        bool // the writes are evictions, not a flush's
	}{
		{"flush", policies[0], 0, false}, {"flush of both tiers", policies[1], 3, false},
		{"eviction", policies[0], 0, true}, {"eviction of both tiers", policies[1], 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onGPU(t, func(t *testing.T, ctx *cuda.Context) {
				const frames = 4
				e, h, end := heldEngine(t, ctx, c.policy, frames, c.t2)
				defer end()
				ref, err := e.Ref(0, 64*page, 0, "a")
				must(t, err)
				dirty := uint64(frames + c.t2)
				write := func(v byte) error {
					return e.Elements(t.Context(), ref, tier.Write, pagesOf(0, dirty), gpu.Buffer{Bytes: slices.Repeat([]byte{v}, int(dirty))})
				}
				read := func(first, n uint64) ([]byte, error) {
					b := make([]byte, n)
					return b, e.Elements(t.Context(), ref, tier.Read, pagesOf(first, n), gpu.Buffer{Bytes: b})
				}
				must(t, write(1))
				h.set(true)
				if c.evict {
					_, err = read(20, 1)
				} else {
					err = e.Flush(t.Context())
				}
				if !errors.Is(err, gpu.ErrTimeout) || h.kept() == 0 {
					t.Fatalf("writes that are kept back: %v, %d of them", err, h.kept())
				}
				h.set(false)
				must(t, e.Check(t.Context()))
				for range 3 { // where a victim is kept, others are looked at by the next access
					if err = write(2); err == nil {
						break
					}
					fencedAlone(t, "writes", err)
				}
				must(t, err)
				var access *gpu.AccessError
				if err := e.Flush(t.Context()); !errors.Is(err, gpu.ErrFenced) || !errors.As(err, &access) || access.Failed == 0 || access.Failed > int(dirty) {
					t.Fatalf("a flush before they were carried out: %v", err)
				}
				if n, err := e.Dirty(t.Context()); n != access.Failed || err != nil {
					t.Errorf("%d pages are dirty after a flush that failed for %d, %v", n, access.Failed, err)
				}
				var named *gpu.PageError
				if err := e.Forget(t.Context(), 0, 64); !errors.As(err, &named) || !errors.Is(err, gpu.ErrFenced) {
					t.Errorf("dropping an array with such pages: %v", err)
				}
				if _, err := read(20, 30); err != nil {
					fencedAlone(t, "reads that evict", err)
				}
				must(t, e.Check(t.Context()))
				h.land()
				within(t, soon, "a flush of all", func() {
					for e.Flush(t.Context()) != nil {
						time.Sleep(5 * time.Millisecond)
					}
				})
				_, err = read(20, 30) // all others leave
				must(t, err)
				got, err := read(0, dirty)
				must(t, err)
				if want := slices.Repeat([]byte{2}, int(dirty)); !slices.Equal(got, want) {
					t.Errorf("pages have %v, want %v", got, want)
				}
				must(t, e.Forget(t.Context(), 0, 64))
			})
		})
	}
}

// fencedAlone: nothing else went wrong.
func fencedAlone(t *testing.T, what string, err error) {
	t.Helper()
	var access *gpu.AccessError
	if !errors.As(err, &access) {
		t.Fatalf("%s: %v", what, err)
	}
	for _, p := range access.Pages {
		if !errors.Is(p, gpu.ErrFenced) {
			t.Errorf("%s: %v", what, p)
		}
	}
}
