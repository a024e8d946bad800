package sim

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// drawTrace draws accesses with some locality, of all four operations.
func drawTrace(rt *rapid.T) *Trace {
	pages := rapid.IntRange(1, 60).Draw(rt, "pages")
	n := rapid.IntRange(1, 600).Draw(rt, "accesses")
	seed := rapid.Uint64().Draw(rt, "seed")
	near := rapid.IntRange(1, pages).Draw(rt, "near")
	readOnly := rapid.Bool().Draw(rt, "read only")
	t := &Trace{Info: TraceInfo{PageSize: 65536, Pages: pages}}
	at := 0
	for i := range n {
		h := placement.Hash(seed, uint64(i), 0)
		switch h >> 62 {
		case 0:
			at = int(h>>8) % pages // anywhere
		case 1:
			at = (at + 1) % pages // a scan
		default:
			at = int(h>>16) % near // a hot set
		}
		op := tier.Op(h >> 32 & 3)
		if readOnly || h>>40&1 == 0 {
			op = tier.Read
		}
		if op == tier.Prefetch {
			t.Info.Prefetches++
		}
		t.Accesses = append(t.Accesses, tier.MakeAccess(placement.Page(at), op))
	}
	t.Info.Accesses = uint64(n) - t.Info.Prefetches
	return t
}

// drawPolicy draws a placer with evictors and some parameters of its own.
func drawPolicy(rt *rapid.T, future bool) placement.Spec {
	placers, evictors := placement.Placers(), placement.Evictors()
	s, err := placement.Parse(rapid.SampledFrom(placers).Draw(rt, "placer").Name + "{}")
	if err != nil {
		rt.Fatal(err)
	}
	try := func(key, value string) {
		if got, err := s.With(key, value); err == nil && (future || !got.NeedsFuture()) {
			s = got
		}
	}
	for _, tier := range []string{placement.KeyT1, placement.KeyT2} {
		try(tier, rapid.SampledFrom(evictors).Draw(rt, tier).Name)
	}
	for _, p := range s.Settings() {
		switch {
		case rapid.Bool().Draw(rt, p.Key+" is default"):
		case p.Words != nil:
			try(p.Key, rapid.SampledFrom(p.Words).Draw(rt, p.Key))
		case p.Integer:
			try(p.Key, strconv.Itoa(rapid.IntRange(int(p.Lo), int(min(p.Hi, p.Lo+200))).Draw(rt, p.Key)))
		default:
			try(p.Key, strconv.FormatFloat(rapid.Float64Range(p.Lo, min(p.Hi, 4)).Draw(rt, p.Key), 'g', 6, 64))
		}
	}
	return s
}

func drawJob(rt *rapid.T) Job {
	j := Job{Policy: drawPolicy(rt, true), GPUFrames: rapid.IntRange(1, 20).Draw(rt, "gpu"),
		HostFrames: rapid.IntRange(0, 30).Draw(rt, "host"), Seed: rapid.Uint64().Draw(rt, "policy's seed")}
	if _, err := j.Policy.Build(placement.Env{T1Frames: j.GPUFrames, T2Frames: j.HostFrames}); err != nil && !j.Policy.NeedsFuture() {
		j.GPUFrames, j.HostFrames = j.GPUFrames+3, j.HostFrames+3 // enough for every policy
	}
	if j.Policy.NeedsFuture() {
		j.GPUFrames, j.HostFrames = j.GPUFrames+3, j.HostFrames+3
	}
	return j
}

// No policy on any trace at any size reads the SSD less often than Belady's
// bound says, and its counters are conserved.
func TestBoundIsNeverBeaten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr, j := drawTrace(rt), drawJob(rt)
		got, err := Replay(t.Context(), tr, []Job{j}, Options{Bound: true, Workers: 1})
		if err != nil {
			rt.Fatal(err)
		}
		r := &got[0]
		if r.SSDReads < *r.BoundReads {
			rt.Fatalf("%s with %d + %d frames: %d SSD reads, fewer than the fewest possible, %d", r.Policy, r.GPUFrames, r.HostFrames, r.SSDReads, *r.BoundReads)
		}
		if err := r.Check(); err != nil {
			rt.Fatalf("%s: %v", r.Policy, err)
		}
	})
}

// twoTiers is a memory of GPU memory and SSD alone, as plainly as can be: what
// three tiers must be when there is no host memory.
type twoTiers struct {
	t1              placement.Evictor
	placer          placement.Placer
	obs             placement.Observer // nil: the placer has no say, there is one place to go
	resident, dirty map[placement.Page]bool
	c               tier.Counters
}

func (m *twoTiers) access(a tier.Access) {
	p, op := a.Page(), a.Op()
	if op != tier.Prefetch {
		m.c.Accesses++
	}
	if m.obs != nil && m.obs.Sampled(p) {
		if w, ok := m.obs.(placement.Watcher); ok {
			w.Watch(m.c.Accesses, p, placement.Use(op))
		} else if op != tier.Prefetch {
			m.obs.Observe(m.c.Accesses, p)
		}
	}
	switch {
	case m.resident[p] && op == tier.Prefetch:
		return
	case m.resident[p]:
		m.c.T1Hits++
		m.t1.Hit(p)
	default:
		if m.obs != nil && op != tier.Prefetch {
			m.obs.Miss(m.c.Accesses, p)
		}
		m.fill(p, op)
	}
	if op == tier.Write || op == tier.Overwrite {
		m.dirty[p] = true
	}
}

func (m *twoTiers) fill(p placement.Page, op tier.Op) {
	if len(m.resident) == m.t1.Cap() {
		m.evict(p)
	}
	switch op {
	case tier.Prefetch:
		m.c.Prefetches++
		m.c.PrefetchReads++
	case tier.Overwrite:
		m.c.Overwrites++
	default:
		m.c.T3Fetches++
	}
	m.t1.Insert(p)
	m.resident[p] = true
}

func (m *twoTiers) evict(incoming placement.Page) {
	v := placement.Victim{Page: m.t1.Victim(incoming, nil), Now: m.c.Accesses}
	v.Dirty = m.dirty[v.Page]
	if m.obs != nil && m.placer.Fate(v) == placement.Keep {
		m.c.Keeps++
		m.t1.Insert(v.Page)
		v.Page, v.Again = m.t1.Victim(incoming, nil), true
		v.Dirty = m.dirty[v.Page]
		m.placer.Fate(v)
	}
	m.c.Evictions++
	m.c.Bypasses++
	if m.dirty[v.Page] {
		m.c.Writebacks++
	}
	delete(m.dirty, v.Page)
	delete(m.resident, v.Page)
}

// Three tiers of which the second has no memory are two tiers, under every
// policy.
func TestNoHostMemoryIsTwoTiers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawTrace(rt)
		policy := drawPolicy(rt, false)
		env := placement.Env{T1Frames: 3 + rapid.IntRange(0, 20).Draw(rt, "frames"), Pages: tr.Info.Pages, Seed: rapid.Uint64().Draw(rt, "policy's seed")}
		built, err := policy.Build(env)
		if err != nil {
			rt.Fatal(err)
		}
		m := &twoTiers{t1: built.T1, placer: built.Placer, resident: map[placement.Page]bool{}, dirty: map[placement.Page]bool{}}
		m.obs, _ = built.Placer.(placement.Observer)
		for _, a := range tr.Accesses {
			m.access(a)
		}
		m.c.FinalDirty = uint64(len(m.dirty))
		got, err := Replay(t.Context(), tr, []Job{{Policy: policy, GPUFrames: env.T1Frames, Seed: env.Seed}}, Options{})
		if err != nil {
			rt.Fatal(err)
		}
		if got[0].Counters != m.c {
			rt.Fatalf("%s with %d frames:\ngot  %+v\nwant %+v", policy, env.T1Frames, got[0].Counters, m.c)
		}
	})
}

// More host memory, and more GPU memory, never make LRU in both tiers read
// more: it is a stack algorithm over their sum. A prefetch of a page in T1 does
// nothing, so with prefetches the order of pages depends on the size of T1, and
// the promise is for host memory alone.
func TestMoreMemoryNeverHurtsLRU(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawTrace(rt)
		j := Job{Policy: spec(t, "tier-order{t1=lru,t2=lru}"), GPUFrames: rapid.IntRange(1, 20).Draw(rt, "gpu"), HostFrames: rapid.IntRange(0, 30).Draw(rt, "host")}
		more, wider := j, j
		more.HostFrames += rapid.IntRange(1, 30).Draw(rt, "more host")
		wider.GPUFrames += rapid.IntRange(1, 30).Draw(rt, "more gpu")
		jobs := []Job{j, more}
		if tr.Info.Prefetches == 0 {
			jobs = append(jobs, wider)
		}
		r, err := Replay(t.Context(), tr, jobs, Options{Workers: 1})
		if err != nil {
			rt.Fatal(err)
		}
		for _, large := range r[1:] {
			// Overwrites need no read, so what a larger memory saves shows in both.
			if large.SSDReads > r[0].SSDReads || large.SSDReads+large.Overwrites > r[0].SSDReads+r[0].Overwrites {
				rt.Fatalf("%d + %d frames read %d pages, %d + %d read %d", large.GPUFrames, large.HostFrames, large.SSDReads,
					r[0].GPUFrames, r[0].HostFrames, r[0].SSDReads)
			}
		}
	})
}
