package gpu_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// record keeps what an observer is told.
type record struct {
	mu   sync.Mutex
	list []gpu.Access
}

func (r *record) observe(list []gpu.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, list...)
}

// taken is what came since the last call.
func (r *record) taken() []gpu.Access {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list
	r.list = nil
	return l
}

// driven makes random accesses of one warp's kind and returns them. An element stands
// for its page; runs cover pages and overwrite them.
func driven(t *testing.T, w *world, rng *rand.Rand, batches int) (made []gpu.Access) {
	t.Helper()
	const each = page / 4
	ref := w.ref(t, 0, w.pages*each, 2)
	lanes := 1
	if !gpuIsFake(t) {
		lanes = 32
	}
	for range batches {
		switch op := []tier.Op{tier.Read, tier.Write, tier.Overwrite, tier.Prefetch}[rng.IntN(4)]; op {
		case tier.Overwrite:
			first := rng.Uint64N(w.pages - 4)
			must(t, w.Run(t.Context(), ref, tier.Write, first*each, 4*each, gpu.Buffer{Bytes: make([]byte, 4*page)}))
			for k := range uint64(4) {
				made = append(made, gpu.Access{Page: first + k, Op: tier.Overwrite})
			}
		default:
			var idx []uint64
			for range 1 + rng.IntN(40) {
				p := min(rng.Uint64N(w.pages), rng.Uint64N(w.pages))
				made = append(made, gpu.Access{Page: p, Op: op})
				for range lanes {
					idx = append(idx, p*each+rng.Uint64N(each))
				}
			}
			must(t, w.Elements(t.Context(), ref, op, idx, gpu.Buffer{Bytes: make([]byte, 4*len(idx))}))
		}
	}
	return made
}

// simulate is what a simulator counts for recorded accesses.
func simulate(t *testing.T, s setup, list []gpu.Access) tier.Counters {
	t.Helper()
	spec, err := placement.Parse(s.policy)
	must(t, err)
	p, err := spec.Build(placement.Env{T1Frames: s.frames, T2Frames: s.t2, Pages: int(s.pages), Seed: 5})
	must(t, err)
	m, err := tier.New(tier.Config{Pages: int(s.pages), T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	must(t, err)
	for _, a := range list {
		m.Run([]tier.Access{tier.MakeAccess(placement.Page(a.Page), a.Op)})
	}
	return m.Counters()
}

// withoutIdle leaves prefetches out, of which those of pages in T1 are not told.
func withoutIdle(list []gpu.Access) []gpu.Access {
	return slices.DeleteFunc(slices.Clone(list), func(a gpu.Access) bool { return a.Op == tier.Prefetch })
}

// TestRecord: an observer of one warp is told of what it did, in its order, and a replay
// of that counts what the GPU counted. The ring wraps many times.
func TestRecord(t *testing.T) {
	defer gpu.SetRecords(64, 60)()
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for i, policy := range policies {
			var r record
			seed := rand.Uint64()
			t.Logf("%s: seed %d", policy, seed)
			s := setup{policy: policy, frames: 5, t2: 3 * i, spares: 2, pages: 48, parity: true, observe: r.observe}
			w := newWorld(t, ctx, s)
			made := driven(t, w, rand.New(rand.NewPCG(seed, 0)), 60)
			st, err := w.Stats(t.Context())
			must(t, err)
			got := r.taken()
			if d := gocmp.Diff(withoutIdle(made), withoutIdle(got)); d != "" {
				t.Errorf("-made +told:\n%s", d)
			}
			want := simulate(t, s, got)
			want.FinalDirty = 0
			if d := gocmp.Diff(want, st.Counters); d != "" {
				t.Errorf("-replayed +GPU:\n%s", d)
			}
			if rec, err := w.Recorded(t.Context()); err != nil || rec != (gpu.Recording{Told: uint64(len(got))}) {
				t.Errorf("%+v, %v; %d were told", rec, err, len(got))
			}
			w.close(t)
		}
	})
}

func count(list []gpu.Access) map[gpu.Access]int {
	n := map[gpu.Access]int{}
	for _, a := range list {
		n[a]++
	}
	return n
}

// TestRecordOfMany: what several warps do is told of once each, and a replay fetches
// nearly as often.
func TestRecordOfMany(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for _, policy := range []string{policies[0], policies[3], policies[4]} {
			var r record
			seed := rand.Uint64()
			t.Logf("%s: seed %d", policy, seed)
			s := setup{policy: policy, frames: 16, t2: 24, spares: 16, pages: 160, observe: r.observe}
			w := newWorld(t, ctx, s)
			ref := w.ref(t, 0, s.pages*page/4, 2)
			rng := rand.New(rand.NewPCG(seed, 0))
			var made []gpu.Access
			for range 6 {
				op := []tier.Op{tier.Read, tier.Write}[rng.IntN(2)]
				var idx []uint64
				for range 600 {
					p := min(rng.Uint64N(s.pages), rng.Uint64N(s.pages))
					made, idx = append(made, gpu.Access{Page: p, Op: op}), append(idx, p*page/4)
				}
				must(t, w.Elements(t.Context(), ref, op, idx, gpu.Buffer{Bytes: make([]byte, 4*len(idx))}))
			}
			st, err := w.Stats(t.Context())
			must(t, err)
			got := r.taken()
			if gpuIsFake(t) { // on a GPU lanes share accesses
				if d := gocmp.Diff(count(made), count(got)); d != "" {
					t.Errorf("-made +told:\n%s", d)
				}
			}
			if rec, err := w.Recorded(t.Context()); err != nil || rec != (gpu.Recording{Told: st.Counters.Accesses}) || uint64(len(got)) != st.Counters.Accesses {
				t.Errorf("%+v, %v; %d were told of %d", rec, err, len(got), st.Counters.Accesses)
			}
			live, replayed := st.Counters.T3Fetches, simulate(t, s, got).T3Fetches
			t.Logf("%d fetches, replayed %d", live, replayed)
			// So few frames are mostly pinned by so many warps of a GPU.
			bound := 0.05
			if !gpuIsFake(t) {
				bound = 0.15
			}
			if d := float64(replayed)/float64(live) - 1; d > bound || d < -bound {
				t.Errorf("%d fetches, replayed %d", live, replayed)
			}
			w.close(t)
		}
	})
}

// TestRecordSample: only the chosen pages are told of, and the placer's own samples go
// their way.
func TestRecordSample(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		for _, policy := range policies[2:4] {
			var r record
			s := setup{policy: policy, frames: 5, t2: 4, spares: 2, pages: 64, parity: true, observe: r.observe, every: 4}
			w := newWorld(t, ctx, s)
			made := withoutIdle(driven(t, w, rand.New(rand.NewPCG(4, 4)), 60))
			got := withoutIdle(r.taken())
			chosen := map[uint64]bool{}
			for _, a := range got {
				chosen[a.Page] = true
			}
			want := slices.DeleteFunc(slices.Clone(made), func(a gpu.Access) bool { return !chosen[a.Page] })
			if d := gocmp.Diff(want, got); d != "" || len(chosen) < 4 || len(chosen) > 32 {
				t.Errorf("of %d pages; -made +told:\n%s", len(chosen), d)
			}
			st, err := w.Stats(t.Context())
			must(t, err)
			if n := samples(t, s, made); st.Counters.Accesses != uint64(len(made)) || st.Samples != n {
				t.Errorf("%s: %d accesses of %d, %d samples of %d", s.policy, st.Counters.Accesses, len(made), st.Samples, n)
			}
			w.close(t)
		}
	})
}

// samples is how many of the accesses a placer wants to know of.
func samples(t *testing.T, s setup, made []gpu.Access) (n uint64) {
	t.Helper()
	spec, err := placement.Parse(s.policy)
	must(t, err)
	p, err := spec.Build(placement.Env{T1Frames: s.frames, T2Frames: s.t2, Pages: int(s.pages), Seed: 5})
	must(t, err)
	o, ok := p.Placer.(placement.Observer)
	for _, a := range made {
		if ok && o.Sampled(placement.Page(a.Page)) {
			n++
		}
	}
	return n
}

// TestSlowObserver: kernels do not wait for long for an observer that takes nothing,
// and what it was not told of is counted. Later accesses are told of again.
func TestSlowObserver(t *testing.T) {
	defer gpu.SetRecords(1<<15, 40)() // more threads than those may see room at once
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var r record
		release := make(chan struct{})
		s := setup{policy: policies[1], frames: 8, t2: 4, spares: 8, pages: 40, deadline: 4 * time.Second,
			observe: func(list []gpu.Access) { <-release; r.observe(list) }}
		w := newWorld(t, ctx, s)
		ref := w.ref(t, 0, s.pages*page, 0)
		var idx []uint64
		for i := range uint64(3000) {
			idx = append(idx, i%s.pages*page)
		}
		opened := time.AfterFunc(2*time.Second, func() { close(release) })
		defer opened.Stop()
		must(t, w.Elements(t.Context(), ref, tier.Read, idx, gpu.Buffer{Bytes: make([]byte, len(idx))}))
		rec, err := w.Recorded(t.Context())
		if err != nil || rec.Lost == 0 || rec.Told == 0 || rec.Told+rec.Lost != accesses(t, w) {
			t.Errorf("%+v of %d, %v", rec, accesses(t, w), err)
		}
		lost := rec.Lost
		must(t, w.Elements(t.Context(), ref, tier.Write, idx[:20], gpu.Buffer{Bytes: make([]byte, 20)}))
		if rec, err = w.Recorded(t.Context()); err != nil || rec.Lost != lost || rec.Told+rec.Lost != accesses(t, w) {
			t.Errorf("later: %+v of %d, %v", rec, accesses(t, w), err)
		}
		w.close(t)
	})
}

func accesses(t *testing.T, w *world) uint64 {
	t.Helper()
	s, err := w.Stats(t.Context())
	must(t, err)
	return s.Counters.Accesses
}

// TestStuckObserver: a batch whose observer does not return ends with an error.
func TestStuckObserver(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		release := make(chan struct{})
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 8, spares: 8, pages: 40, deadline: 200 * time.Millisecond,
			observe: func([]gpu.Access) { <-release }})
		err := w.Elements(t.Context(), w.ref(t, 0, 40*page, 0), tier.Read, []uint64{5}, gpu.Buffer{Bytes: make([]byte, 1)})
		if !errors.Is(err, gpu.ErrObserver) {
			t.Errorf("%v", err)
		}
		close(release)
		w.close(t)
	})
}
