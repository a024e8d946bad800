package gpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// told keeps what a listener is told, list by list.
type told struct {
	mu    sync.Mutex
	lists [][]gpu.Event
}

func (l *told) listen(list []gpu.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = append(l.lists, slices.Clone(list))
}

// group is a miss, or a page that a flush wrote, and its moves.
type group struct {
	gpu.Event
	moves []gpu.Event
}

func (g *group) count(kind gpu.EventKind, page uint64) (n int) {
	for _, m := range g.moves {
		if m.Kind == kind && !m.Failed && (m.Page == page) {
			n++
		}
	}
	return n
}

func end(e gpu.Event) time.Time { return e.Start.Add(e.Took) }

// groups checks how events lie in one another, and that all are complete in their lists.
func (l *told) groups(t *testing.T) (all []group) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.lists {
		var now *group
		for _, e := range list {
			if e.Took < 0 || e.Took > time.Minute || e.Stripe < 0 || e.Stripe > 127 {
				t.Errorf("an event %+v", e)
			}
			if e.Kind >= gpu.EventMiss {
				all = append(all, group{Event: e})
				now = &all[len(all)-1]
				continue
			}
			if now == nil {
				t.Fatalf("a list begins with a move: %+v", e)
			}
			// One after another, but for what lies within a read.
			after := now.Start
			for _, m := range now.moves {
				if m.Kind != gpu.EventRead || end(e).After(end(m)) || e.Start.Before(m.Start) {
					after = end(m)
				}
			}
			if e.Start.Before(after) || end(e).After(end(now.Event)) || e.Stripe != now.Stripe {
				t.Errorf("%+v, after %v, is not within %+v", e, after, now.Event)
			}
			now.moves = append(now.moves, e)
		}
	}
	return all
}

func kinds(all []group) (n [gpu.EventFlush + 1]uint64) {
	for _, g := range all {
		for _, e := range append([]gpu.Event{g.Event}, g.moves...) {
			if !e.Failed {
				n[e.Kind]++
			}
		}
	}
	return n
}

// expectKinds compares what was told with what was counted.
func expectKinds(t *testing.T, w *world, all []group) {
	t.Helper()
	s, err := w.Stats(t.Context())
	must(t, err)
	c := s.Counters
	want := [gpu.EventFlush + 1]uint64{gpu.EventMiss: c.T2Hits + c.T3Fetches + c.Overwrites + c.Prefetches, gpu.EventFlush: s.Device.Flushed}
	for edge := range s.Moves {
		for _, n := range s.Moves[edge] {
			want[edge] += n
		}
	}
	if got := kinds(all); got != want || want[gpu.EventRead] != c.T3Fetches+c.PrefetchReads || want[gpu.EventWrite] != c.Writebacks+s.Device.Flushed {
		t.Errorf("told of %v by kind, counted %v: %+v", got, want, c)
	}
}

// TestEvents: a listener is told of every miss, flushed page and move once, moves within
// what they belong to, and their times are the host's.
func TestEvents(t *testing.T) {
	defer gpu.SetEvents(1<<11, 1<<10)() // it wraps
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for i, policy := range policies {
			for _, parity := range []bool{true, false} {
				var l told
				seed := rand.Uint64()
				t.Logf("%s: seed %d", policy, seed)
				w := newWorld(t, ctx, setup{policy: policy, frames: 6, t2: 3 * (i % 4), spares: 8, pages: 48, parity: parity, events: l.listen})
				rng := rand.New(rand.NewPCG(seed, 0))
				begun := time.Now()
				for range 6 {
					driven(t, w, rng, 10)
					must(t, w.Flush(t.Context()))
				}
				k, err := w.Told(t.Context())
				over := time.Now()
				all := l.groups(t)
				if want := (gpu.Told{Events: k.Events, Begun: uint64(len(all)), Sampled: uint64(len(all)), Clock: k.Clock}); err != nil || k != want || k.Clock <= 0 || k.Clock > time.Second {
					t.Errorf("%+v, %v, of %d groups", k, err, len(all))
				}
				expectKinds(t, w, all)
				for _, g := range all {
					n := uint64(1 + len(g.moves))
					k.Events -= n
					fetched := g.count(gpu.EventRead, g.Page) + g.count(gpu.EventPromote, g.Page)
					if g.Kind == gpu.EventMiss && (fetched > 1 || fetched == 0 && g.Op != tier.Overwrite || g.Op == tier.Overwrite && g.count(gpu.EventRead, g.Page) > 0) ||
						g.Kind == gpu.EventFlush && (len(g.moves) != 1 || g.count(gpu.EventWrite, g.Page) != 1) || g.Failed {
						t.Errorf("%+v", g)
					}
					if g.Start.Before(begun.Add(-k.Clock)) || end(g.Event).After(over.Add(k.Clock)) {
						t.Errorf("%+v is not between %v and %v, within %v", g, begun, over, k.Clock)
					}
				}
				if k.Events != 0 {
					t.Errorf("%d events more than there were", k.Events)
				}
				w.close(t)
			}
		}
	})
}

// TestEventsEvery: one miss in so many is told of, with all its moves.
func TestEventsEvery(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var l told
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, parity: true, events: l.listen, eventsEvery: 5})
		ref := w.ref(t, 0, 64*page, 0)
		must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 64), gpu.Buffer{Bytes: make([]byte, 64)})) // 60 demotions
		k, err := w.Told(t.Context())
		all := l.groups(t)
		want := gpu.Told{Begun: 64, Sampled: 13, Events: 13 + 13 + 12, Clock: k.Clock}
		if err != nil || k != want || len(all) != 13 {
			t.Errorf("%+v, %v, want %+v, %d misses", k, err, want, len(all))
		}
		for i, g := range all {
			if g.Page != uint64(5*i) || g.count(gpu.EventRead, g.Page) != 1 || i > 0 && g.count(gpu.EventDemote, g.Page-4) != 1 {
				t.Errorf("miss %d: %+v", i, g)
			}
		}
		w.close(t)
	})
}

// TestSlowListener: kernels do not wait for a listener that does not return; what it was
// not told of is counted, and it is told of later misses.
func TestSlowListener(t *testing.T) {
	for _, room := range []uint64{200, 4} { // one for whole misses, one that cuts them
		undo := gpu.SetEvents(1<<15, room) // more threads than those may see room at once
		onGPU(t, func(t *testing.T, ctx *cuda.Context) {
			var l told
			release := make(chan struct{})
			w := newWorld(t, ctx, setup{policy: policies[1], frames: 8, t2: 4, spares: 8, pages: 200,
				events: func(list []gpu.Event) { <-release; l.listen(list) }})
			ref := w.ref(t, 0, 200*page, 0)
			read := func(first, n uint64) {
				t.Helper()
				must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(first, n), gpu.Buffer{Bytes: make([]byte, n)}))
			}
			read(0, 1) // what holds the listener up
			for range 3 {
				read(0, 200)
			}
			close(release)
			k, err := w.Told(t.Context())
			all := l.groups(t)
			var events uint64
			for _, g := range all {
				events += uint64(1 + len(g.moves))
			}
			if err != nil || k.LeftOut == 0 || k.Events != events || k.Sampled != k.Begun || uint64(len(all))+k.LeftOut > k.Begun || (k.Cut == 0) != (uint64(len(all))+k.LeftOut == k.Begun) || room == 200 && k.Cut != 0 {
				t.Errorf("%+v, %v; %d misses of %d events", k, err, len(all), events)
			}
			t.Logf("%+v", k)
			read(100, 1)
			again, err := w.Told(t.Context())
			if err != nil || again.Events < k.Events+2 || again.LeftOut != k.LeftOut || again.Cut != k.Cut || again.Begun != k.Begun+1 {
				t.Errorf("later: %+v, %v", again, err)
			}
			w.close(t)
		})
		undo()
	}
}

// TestCutEvents: moves whose miss found no room are counted with it, and not told of.
func TestCutEvents(t *testing.T) {
	defer gpu.SetEvents(1<<10, 2)()
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var l told
		var hold atomic.Bool
		held, release := make(chan struct{}), make(chan struct{})
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 3, spares: 8, pages: 40, parity: true, events: func(list []gpu.Event) {
			if hold.CompareAndSwap(true, false) {
				close(held)
				<-release
			}
			l.listen(list)
		}})
		ref := w.ref(t, 0, 40*page, 0)
		do := func(op tier.Op, p uint64) {
			t.Helper()
			must(t, w.Elements(t.Context(), ref, op, []uint64{p * page}, gpu.Buffer{Bytes: make([]byte, 1)}))
		}
		for p, op := range []tier.Op{tier.Write, tier.Read} {
			do(op, uint64(p))
			if _, err := w.Told(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		hold.Store(true)
		do(tier.Read, 2)
		<-held
		do(tier.Read, 3) // it writes 0 back, and reads: two events
		close(release)
		k, err := w.Told(t.Context())
		if want := (gpu.Told{Events: 6, Begun: 4, Sampled: 4, Cut: 3, Clock: k.Clock}); err != nil || k != want || len(l.groups(t)) != 3 {
			t.Errorf("%+v, %v, want %+v", k, err, want)
		}
		w.close(t)
	})
}

// TestStuckListener: batches end, and the question how far it is with an error.
func TestStuckListener(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		release := make(chan struct{})
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 8, spares: 8, pages: 40, deadline: 300 * time.Millisecond,
			events: func([]gpu.Event) { <-release }})
		must(t, w.Elements(t.Context(), w.ref(t, 0, 40*page, 0), tier.Read, []uint64{5}, gpu.Buffer{Bytes: make([]byte, 1)}))
		if _, err := w.Told(t.Context()); !errors.Is(err, gpu.ErrObserver) {
			t.Errorf("%v", err)
		}
		close(release)
		w.close(t)
	})
}

// TestCloseWithStuckListeners: a Close does not wait longer than the deadline for who is
// told of accesses or events, and closes.
func TestCloseWithStuckListeners(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for name, s := range map[string]setup{
			"events":  {events: func([]gpu.Event) { <-t.Context().Done() }},
			"records": {observe: func([]gpu.Access) { <-t.Context().Done() }},
		} {
			s.policy, s.frames, s.spares, s.pages, s.deadline = policies[0], 8, 8, 40, 300*time.Millisecond
			w := newWorld(t, ctx, s)
			_ = w.Elements(t.Context(), w.ref(t, 0, 40*page, 0), tier.Read, []uint64{5}, gpu.Buffer{Bytes: make([]byte, 1)})
			begun := time.Now()
			if err := w.Close(); !errors.Is(err, gpu.ErrObserver) || time.Since(begun) > 20*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
			if err := errors.Join(w.Close(), drive.CloseAll(w.drives)); err != nil {
				t.Errorf("%s, closed again: %v", name, err)
			}
		}
	})
}

// TestFailedEvents: what fails is told of as failed.
func TestFailedEvents(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var broken atomic.Bool
		faults := func(int) soft.Faults {
			return faultFunc(func(c *soft.CommandInfo) soft.Fault {
				if c.Queue != 0 && broken.Load() {
					return soft.Fault{Status: libnvm.StatusInternalError}
				}
				return soft.Fault{}
			})
		}
		var l told
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 2, spares: 8, pages: 40, parity: true, faults: faults, events: l.listen})
		ref := w.ref(t, 0, 40*page, 0)
		do := func(op tier.Op, p uint64) error {
			return w.Elements(t.Context(), ref, op, []uint64{p * page}, gpu.Buffer{Bytes: make([]byte, 1)})
		}
		broken.Store(true)
		failed := []error{do(tier.Read, 9)}
		broken.Store(false)
		must(t, do(tier.Write, 3))
		must(t, do(tier.Write, 4))
		broken.Store(true)
		failed = append(failed, do(tier.Read, 9), w.Flush(t.Context()))
		broken.Store(false)
		if slices.Contains(failed, nil) {
			t.Errorf("%v", failed)
		}
		_, err := w.Told(t.Context())
		must(t, err)
		type item struct {
			kind   gpu.EventKind
			failed bool
			page   uint64
		}
		var got []item
		for _, g := range l.groups(t) {
			for _, e := range append([]gpu.Event{g.Event}, g.moves...) {
				got = append(got, item{e.Kind, e.Failed, e.Page})
			}
		}
		want := []item{{gpu.EventMiss, true, 9}, {gpu.EventRead, true, 9}, {gpu.EventMiss, false, 3}, {gpu.EventRead, false, 3}, {gpu.EventMiss, false, 4}, {gpu.EventRead, false, 4},
			{gpu.EventMiss, true, 9}, {gpu.EventRead, true, 9}, {gpu.EventWrite, true, 3}, {gpu.EventFlush, true, 3}, {gpu.EventWrite, true, 3}, {gpu.EventFlush, true, 4}, {gpu.EventWrite, true, 4}}
		if !slices.Equal(got, want) {
			t.Errorf("told of %v, want %v", got, want)
		}
		w.close(t)
	})
}

// TestNoEvents: without a listener nothing is counted, and nothing is said.
func TestNoEvents(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64})
		driven(t, w, rand.New(rand.NewPCG(1, 1)), 5)
		if k, err := w.Told(t.Context()); err != nil || k != (gpu.Told{}) {
			t.Errorf("%+v, %v", k, err)
		}
		w.close(t)
		if _, err := w.Told(t.Context()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}
