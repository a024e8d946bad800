package placement

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// newAdaptivePolicy builds adaptive for tiers of t1 and t2 frames.
func newAdaptivePolicy(t testing.TB, policy string, t1, t2, pages int) (*Policy, *Adaptive) {
	t.Helper()
	p, err := mustParse(t, policy).Build(Env{T1Frames: t1, T2Frames: t2, Pages: pages, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p, p.Placer.(*Adaptive)
}

// TestRanks: of every full group of pages exactly one is chosen, at random, and
// its rank is the group's; growing changes nothing.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.IntRange(1, 50).Draw(t, "every")
		pages := rapid.IntRange(0, 2000).Draw(t, "pages")
		r := ranks{seed: rapid.Uint64().Draw(t, "seed"), every: uint64(every)}
		r.grow(rapid.IntRange(0, pages).Draw(t, "first"))
		n := r.grow(pages)
		count := make([]int, n)
		for p := range Page(pages + 10) {
			rank, ok := r.rank(p)
			if ok != (r.chosen(p) && int(p) < pages) {
				t.Fatalf("page %d: rank %t", p, ok)
			}
			if ok {
				count[rank]++
			}
		}
		for i, c := range count {
			if full := (i+1)*every <= pages; c > 1 || full && c != 1 {
				t.Fatalf("%d pages of group %d of %d are chosen", c, i, n)
			}
		}
	})
	at := make([]int, 8)
	r := ranks{seed: 3, every: 8}
	r.grow(8000)
	for p := range Page(8000) {
		if r.chosen(p) {
			at[p%8]++
		}
	}
	for i, c := range at {
		if c < 80 || c > 170 {
			t.Errorf("%d of 1000 chosen pages are at place %d of 8", c, i)
		}
	}
}

// TestMiniature: what exceeds the real tiers by one page exceeds the shadows'.
func TestMiniature(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		t1 := rapid.IntRange(1, 100_000).Draw(t, "t1")
		t2 := rapid.IntRange(t1, 400_000).Draw(t, "t2")
		every := (t1 + t2 + 4095) / 4096
		s1, s2 := miniature(Env{T1Frames: t1, T2Frames: t2}, every, 1, 1)
		if every == 1 && (s1 != t1 || s2 != t2) {
			t.Fatalf("exact shadows of %d+%d frames have %d+%d", t1, t2, s1, s2)
		}
		if chosen := (t1 + t2 + 1) / every; every > 1 && s1+s2 >= chosen {
			t.Fatalf("%d+%d frames, one in %d: %d+%d hold %d pages", t1, t2, every, s1, s2, chosen)
		}
		if s1+s2 > 4096 || every > 1 && s1+s2 < 2000 {
			t.Fatalf("%d+%d frames: shadows of %d+%d", t1, t2, s1, s2)
		}
	})
}

// TestAdaptiveSizes: exact shadows up to 4,096 frames, samples above, and what
// each of the smallest sizes gives.
func TestAdaptiveSizes(t *testing.T) {
	for _, c := range []struct {
		policy         string
		t1, t2         int
		sample         uint64
		shadow1, shad2 int
	}{
		{"adaptive", 1, 0, 1, 1, 0},
		{"adaptive", 1, 1, 1, 1, 1},
		{"adaptive", 819, 3277, 1, 819, 3277},
		{"adaptive", 820, 3277, 2, 410, 1637},
		{"adaptive", 1, 8192, 3, 1, 2729},
		{"adaptive", 10_000, 0, 3, 3333, 0},
		{"adaptive{shadow-frames=64}", 50, 100, 3, 17, 32},
		{"adaptive{t1=2q,t2=s3-fifo,shadow-frames=64}", 2, 1000, 16, 2, 59},
	} {
		p, a := newAdaptivePolicy(t, c.policy, c.t1, c.t2, 10)
		s := a.Report().Shadows
		if s.Sample != c.sample || s.T1Frames != c.shadow1 || s.T2Frames != c.shad2 {
			t.Errorf("%s of %d+%d frames: %+v", c.policy, c.t1, c.t2, s)
		}
		if (p.T2 != nil) != (c.t2 > 0) {
			t.Errorf("%s of %d+%d frames: T2 %v", c.policy, c.t1, c.t2, p.T2)
		}
	}
	// A Future knows pages by their own index: no samples.
	future, err := NewFuture(make([]uint32, 10), 10)
	if err != nil {
		t.Fatal(err)
	}
	p, err := mustParse(t, "adaptive{t2=belady,shadow-frames=64}").Build(Env{T1Frames: 100, T2Frames: 400, Pages: 10, Future: future})
	if err != nil || p.Placer.(*Adaptive).Report().Shadows.Sample != 1 {
		t.Errorf("belady with samples: %v", err)
	}
}

// TestGivingOrder: while gmt-reuse is followed, copies leave first, then what it
// does not want, then the evictor's own choice.
func TestGivingOrder(t *testing.T) {
	p, a := newAdaptivePolicy(t, "adaptive{t1=fifo,t2=fifo,t2copy=keep}", 1, 6, 20)
	g := p.T2.(*giving)
	for page := range Page(6) {
		g.mark(page, page == 1 || page == 4)
		g.Insert(page)
	}
	g.used(5) // comes into T1, its copy stays
	g.used(2)
	if g.room() != true || g.kept != 2 {
		t.Errorf("%d copies", g.kept)
	}
	g.mark(2, false)
	g.Hit(2) // leaves T1: page 2 is in T2 alone again
	var got []Page
	for range 6 {
		got = append(got, g.Victim(None, nil))
	}
	want := []Page{5, 1, 4, 0, 2, 3}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("victims %v, want %v", got, want)
		}
	}
	if g.mark(5, true) || !g.mark(5, true) || !g.mark(1, true) {
		t.Error("a page whose copy was given up goes to T2 once, whatever its fate; others do not")
	}
	a.duel.leader = leadOrder
	g.early = false
	for page := range Page(6) {
		g.mark(page, page >= 3)
		g.Insert(page)
	}
	if v := g.Victim(None, nil); v != 0 {
		t.Errorf("while tier-order is followed, page %d left first", v)
	}
}

// TestAdaptiveFates: while gmt-reuse is followed, what it would send to T3 goes
// to T2 as long as that loses no page; while tier-order is, all goes to T2.
func TestAdaptiveFates(t *testing.T) {
	// first=0: a clean page without history is bound for T3.
	p, a := newAdaptivePolicy(t, "adaptive{first=0}", 1, 2, 20)
	evict := func(page Page) Fate {
		a.Watch(uint64(page)+1, page, UseRead)
		a.Miss(uint64(page)+1, page)
		return a.Fate(Victim{Page: page, Now: uint64(page) + 1})
	}
	for page, want := range []Fate{ToT2, ToT2, ToT3} {
		got := evict(Page(page))
		if got != want {
			t.Errorf("page %d of a T2 of 2: %s, want %s", page, got, want)
		}
		if got == ToT2 {
			p.T2.Insert(Page(page))
		}
	}
	a.duel.leader = leadOrder
	if got := evict(3); got != ToT2 {
		t.Errorf("following tier-order: %s", got)
	}
	_, none := newAdaptivePolicy(t, "adaptive{first=0}", 1, 0, 20)
	none.Watch(1, 5, UseRead)
	if got := none.Fate(Victim{Page: 5, Now: 1}); got != ToT3 {
		t.Errorf("without a T2: %s", got)
	}
}

// TestAdaptiveTellsOfEvictions: what gmt-reuse would keep leaves T1 while
// tier-order is followed, and gmt-reuse knows.
func TestAdaptiveTellsOfEvictions(t *testing.T) {
	for _, c := range []struct {
		leader int
		want   Fate
		away   bool
	}{{leadReuse, Keep, false}, {leadOrder, ToT2, true}} {
		_, a := newAdaptivePolicy(t, "adaptive", 1, 2, 20)
		a.duel.leader = c.leader
		a.real.pages[3].history = reuseHistory(0).judge(reuseShort)
		got := a.Fate(Victim{Page: 3, Now: 7})
		if away := a.real.pages[3].history&reuseAway != 0; got != c.want || away != c.away {
			t.Errorf("leader %d: %s, away %t", c.leader, got, away)
		}
	}
}

func TestAdaptiveDoesNotAllocate(t *testing.T) {
	for _, policy := range []string{"adaptive", "adaptive{shadow-frames=64,t2copy=keep}"} {
		const pages = 1000
		p, a := newAdaptivePolicy(t, policy, 20, 80, pages)
		now := uint64(0)
		resident := make([]bool, pages)
		run := func() {
			for range 2000 {
				now++
				page := Page(Hash(1, now, 0) % pages)
				if a.Sampled(page) {
					a.Watch(now, page, Use(now%4))
				}
				a.Miss(now, page)
				v := Page(Hash(2, now, 0) % pages)
				if a.Fate(Victim{Page: v, Now: now, Again: true}) == ToT2 && !resident[v] {
					if p.T2.Len() == p.T2.Cap() {
						resident[p.T2.Victim(v, nil)] = false
					}
					p.T2.Insert(v)
					resident[v] = true
				}
			}
		}
		run() // the first accesses make room
		if n := testing.AllocsPerRun(10, run); n != 0 {
			t.Errorf("%s: %v allocations in 2000 accesses", policy, n)
		}
	}
}

func TestAdaptiveReport(t *testing.T) {
	_, a := newAdaptivePolicy(t, "adaptive{shadow-frames=64}", 40, 160, 100)
	for i := range uint64(1000) {
		if p := Page(i % 100); a.Sampled(p) {
			a.Watch(i+1, p, UseRead)
		}
	}
	r := a.Report()
	s := r.String()
	for _, want := range []string{"follows tier-order, switched 1 time, ", "% of the accesses; ", "one in 4 pages", "bypass 250", "tier-order 25"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q lacks %q", s, want)
		}
	}
	if r.Shadows.Accesses != 250 || r.Shadows.Pages != 25 || r.Share() < 0.01 || r.Share() > 0.5 || (AdaptiveReport{}).Share() != 0 {
		t.Errorf("%+v", r)
	}
}
