package tritier_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

const observedPages = 40 // of each array

// touch reads and writes elements of two arrays, of which a third is dropped meanwhile,
// and returns the accesses.
func touch(t *testing.T, m *tritier.Memory, rng *rand.Rand) (made []tritier.Access) {
	t.Helper()
	arrays := map[string]*tritier.Array[uint64]{}
	for _, name := range []string{"b", "gone", "a"} {
		a, err := tritier.NewArray[uint64](t.Context(), m, name, observedPages*page/8)
		if err != nil {
			t.Fatal(err)
		}
		arrays[name] = a
	}
	batch := func(name string, write bool) {
		var idx []uint64
		op := tier.Read
		if write {
			op = tier.Write
		}
		for range 400 {
			p := min(rng.Uint64N(observedPages), rng.Uint64N(observedPages))
			if slices.Contains(idx[len(idx)/32*32:], p*page/8) {
				continue // 32 indices in a row that share a page are one access
			}
			idx = append(idx, p*page/8)
			made = append(made, tritier.Access{Array: name, Page: p, Op: op})
		}
		do := arrays[name].Gather
		if write {
			do = arrays[name].Scatter
		}
		if err := do(t.Context(), idx, make([]uint64, len(idx))); err != nil {
			t.Fatal(err)
		}
	}
	batch("gone", false)
	if err := m.DropArray(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		batch([]string{"a", "b"}[i%2], rng.IntN(3) == 0)
	}
	return made
}

func tally(list []tritier.Access) map[tritier.Access]int {
	n := map[tritier.Access]int{}
	for _, a := range list {
		n[a]++
	}
	return n
}

// replayed is what a simulator fetches for the accesses.
func replayed(t *testing.T, c tritier.Config, list []tritier.Access) tier.Counters {
	t.Helper()
	spec, err := placement.Parse(c.Policy)
	if err != nil {
		t.Fatal(err)
	}
	pages := 3 * observedPages
	p, err := spec.Build(placement.Env{T1Frames: int(c.T1 / page), T2Frames: int(c.T2 / page), Pages: pages, Seed: c.Seed})
	if err != nil {
		t.Fatal(err)
	}
	m, err := tier.New(tier.Config{Pages: pages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		n := uint64(slices.Index([]string{"b", "gone", "a"}, a.Array))
		m.Run([]tier.Access{tier.MakeAccess(placement.Page(n*observedPages+a.Page), a.Op)})
	}
	return m.Counters()
}

func observing(policy, engine string, seen *[]tritier.Access) tritier.Config {
	return tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 8 * page, T2: 12 * page, Buffers: 16 * page, Policy: policy, Engine: engine,
		Observe: func(a tritier.Access) { *seen = append(*seen, a) }}
}

// TestObserve: with either engine, an observer is told of every access once, by the time
// that the call returns, and a replay of what it was told fetches as often.
func TestObserve(t *testing.T) {
	try := func(t *testing.T, engine string) {
		for _, policy := range []string{"tier-order{t1=clock,t2=fifo}", "gmt-reuse"} {
			var seen []tritier.Access
			c := observing(policy, engine, &seen)
			m := openGPU(t, c)
			seed := rand.Uint64()
			t.Logf("%s, %s: seed %d", engine, policy, seed)
			made := touch(t, m, rand.New(rand.NewPCG(seed, 0)))
			if d := gocmp.Diff(tally(made), tally(seen)); d != "" {
				t.Errorf("%s, %s: -made +told:\n%s", engine, policy, d)
			}
			if o, err := m.Observed(t.Context()); err != nil || o != (tritier.Observed{Told: uint64(len(made))}) {
				t.Errorf("%+v, %v, want %d", o, err, len(made))
			}
			live, again := m.Stats().Counters.T3Fetches, replayed(t, c, seen).T3Fetches
			if d := float64(again)/float64(live) - 1; d > 0.05 || d < -0.05 {
				t.Errorf("%s, %s: %d fetches, replayed %d", engine, policy, live, again)
			}
			closeMemory(t, m)
		}
	}
	onDevice(t, func(t *testing.T) {
		try(t, tritier.EngineHost)
		try(t, tritier.EngineGPU)
	})
}

// TestObserveEvery: an observer of some pages is told of all accesses to them.
func TestObserveEvery(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		for _, engine := range []string{tritier.EngineHost, tritier.EngineGPU} {
			var seen []tritier.Access
			c := observing("bypass{t1=clock}", engine, &seen)
			c.ObserveEvery = 4
			m := openGPU(t, c)
			made := touch(t, m, rand.New(rand.NewPCG(3, 3)))
			type place struct {
				array string
				page  uint64
			}
			chosen := map[place]bool{}
			for _, a := range seen {
				chosen[place{a.Array, a.Page}] = true
			}
			want := slices.DeleteFunc(made, func(a tritier.Access) bool { return !chosen[place{a.Array, a.Page}] })
			if d := gocmp.Diff(tally(want), tally(seen)); d != "" || len(chosen) < 12 || len(chosen) > 60 {
				t.Errorf("%s: %d pages; -made +told:\n%s", engine, len(chosen), d)
			}
			closeMemory(t, m)
		}
	})
}
