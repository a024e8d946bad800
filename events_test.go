package tritier_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/tier/host"
)

// TestEventsOnDevice: kernels tell of misses and moves of the pages of arrays, as many as
// are counted; of one in so many, if that is wanted.
func TestEventsOnDevice(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		for _, every := range []int{0, 3} {
			var mu sync.Mutex
			var n [host.EventKinds]uint64
			arrays := map[string]bool{}
			c := tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 8 * page, T2: 12 * page, Buffers: 16 * page, Policy: "tier-order{t1=clock,t2=fifo}",
				Engine: tritier.EngineGPU, EventsEvery: every}
			begun := time.Now()
			c.Events = func(e tritier.Event) {
				mu.Lock()
				defer mu.Unlock()
				n[e.Kind]++
				arrays[e.Array] = true
				move := e.Kind != host.EventMiss && e.Kind != host.EventSave
				if e.Count != 1 || (e.Bytes == page) != move || e.Page >= observedPages && e.Array != "?" || e.Failed || time.Since(e.Start) > time.Since(begun)+time.Second || e.Took < 0 {
					t.Errorf("%+v", e)
				}
			}
			m := openGPU(t, c)
			touch(t, m, rand.New(rand.NewPCG(9, 9)))
			if err := m.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			k, err := m.Traced(t.Context())
			mu.Lock()
			var told uint64
			for _, x := range n {
				told += x
			}
			s := m.Stats()
			missed := s.Counters.Accesses - s.Counters.T1Hits + s.Flushed
			want := tritier.Traced{Told: told, Begun: missed, Sampled: missed, Clock: k.Clock}
			if every > 1 {
				want.Sampled = (missed + 2) / 3
			}
			if err != nil || k != want || n[host.EventMiss]+n[host.EventSave] != want.Sampled || !arrays["a"] || !arrays["b"] || arrays[""] {
				t.Errorf("%+v, %v; want %+v; %v, %v", k, err, want, n, arrays)
			}
			for edge, kind := range []host.EventKind{host.EventRead, host.EventWrite, host.EventDemote, host.EventPromote} {
				if pages := s.Edges[edge].Pages; every == 0 && n[kind] != pages || every > 1 && (n[kind] == 0 || n[kind] > pages*2/3) {
					t.Errorf("one in %d: %d of %d %vs", every, n[kind], pages, kind)
				}
			}
			mu.Unlock()
			closeMemory(t, m)
			if _, err := m.Traced(t.Context()); !errors.Is(err, tritier.ErrClosed) {
				t.Errorf("closed: %v", err)
			}
		}
	})
}

// TestTracedOnHost: the CPU's engine counts what it told.
func TestTracedOnHost(t *testing.T) {
	n := uint64(0)
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 8 * page, T2: 12 * page, GPU: "none", Events: func(tritier.Event) { n++ }})
	touch(t, m, rand.New(rand.NewPCG(9, 9)))
	if k, err := m.Traced(t.Context()); err != nil || n == 0 || k != (tritier.Traced{Told: n}) {
		t.Errorf("%+v, %v; told of %d", k, err, n)
	}
	closeMemory(t, m)
}
