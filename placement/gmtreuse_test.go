package placement

import (
	"math"
	"strings"
	"testing"
	"unsafe"
)

// newReuse makes a gmt-reuse that samples every page.
func newReuse(t testing.TB, t1, t2, pages int, edit func(*GMTReuseParams)) *GMTReuse {
	t.Helper()
	p := DefaultGMTReuseParams()
	p.K = 1
	if edit != nil {
		edit(&p)
	}
	g, err := NewGMTReuse(t1, t2, pages, 42, p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// away evicts p and has it miss again after vtd accesses.
func away(g *GMTReuse, now *uint64, p Page, vtd uint64) Fate {
	f := g.Fate(Victim{Page: p, Now: *now, Again: true})
	*now += vtd
	g.Miss(*now, p)
	return f
}

func TestReuseDefaults(t *testing.T) {
	want := GMTReuseParams{First: 0.5, FitEvery: 8192, K: 16, R2: 0.75, Starve: 0.8, VTDDirect: 10240, Window: 4096}
	if got := DefaultGMTReuseParams(); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	if size := unsafe.Sizeof(reusePage{}); size != 16 {
		t.Errorf("a page's record has %d bytes, want 16", size)
	}
}

func TestReuseRefusesNonsense(t *testing.T) {
	p := DefaultGMTReuseParams()
	p.K, p.R2, p.Window = 0, math.NaN(), 1<<20+1
	_, err := NewGMTReuse(1, 0, 0, 0, p)
	for _, key := range []string{"k=0", "r2=NaN", "window=1048577"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	for _, frames := range [][2]int{{0, 5}, {1, -1}} {
		if _, err := NewGMTReuse(frames[0], frames[1], 0, 0, DefaultGMTReuseParams()); err == nil {
			t.Errorf("tiers of %v frames were accepted", frames)
		}
	}
}

// TestReuseFirstEviction: without history, dirty pages go to T2 and clean ones
// by a fair coin that the seed decides.
func TestReuseFirstEviction(t *testing.T) {
	const n = 10_000
	g := newReuse(t, 10, 10, 2*n, nil)
	t2 := 0
	for p := range Page(2 * n) {
		v := Victim{Page: p, Now: uint64(p) + 1, Dirty: p >= n}
		f := g.Fate(v)
		switch heads := Hash(42, v.Now, p)>>63 == 0; {
		case v.Dirty && f != ToT2:
			t.Fatalf("dirty page %d: %s", p, f)
		case !v.Dirty && (f == Keep || heads != (f == ToT2)):
			t.Fatalf("clean page %d: %s", p, f)
		case !v.Dirty && f == ToT2:
			t2++
		}
	}
	if dev := math.Abs(float64(t2) - n/2); dev > 4*math.Sqrt(n/4) {
		t.Errorf("%d of %d clean pages to T2", t2, n)
	}
	if r := g.Report(); r.First != 2*n || r.Predicted != [3]uint64{} {
		t.Errorf("report %+v", r)
	}
}

// TestReuseFates walks one page through the classes: T1 has 10 frames, T2 20.
func TestReuseFates(t *testing.T) {
	g := newReuse(t, 10, 20, 1, nil)
	now := uint64(100)
	away(g, &now, 0, 9) // short
	v := Victim{Page: 0, Now: now}
	if f := g.Fate(v); f != Keep {
		t.Errorf("short: %s, want keep", f)
	}
	if at := g.pages[0].evictedAt; at != 100 {
		t.Errorf("a kept page was evicted at %d, want 100 as before", at)
	}
	v.Again = true
	if f := g.Fate(v); f != ToT2 {
		t.Errorf("short, again in this eviction: %s, want t2", f)
	}
	if at := g.pages[0].evictedAt; at != now {
		t.Errorf("evicted at %d, want %d", at, now)
	}
	now += 29
	g.Miss(now, 0) // medium: its own row is empty
	if f := away(g, &now, 0, 30); f != ToT2 {
		t.Errorf("medium: %s, want t2", f)
	}
	// long by now
	if f := away(g, &now, 0, 30); f != ToT3 {
		t.Errorf("long: %s, want t3", f)
	}
	r := g.Report()
	if r.Classes != [3]uint64{1, 1, 2} || r.Kept != 1 || r.Predicted != [3]uint64{1, 1, 1} {
		t.Errorf("classes %v, kept %d, predicted %v", r.Classes, r.Kept, r.Predicted)
	}
	// predicted short was medium, medium was long, long was long
	if r.Outcomes != [3][3]uint64{{0, 1, 0}, {0, 0, 1}, {0, 0, 1}} || math.Abs(r.Accuracy()-1./3) > 1e-12 {
		t.Errorf("outcomes %v, accuracy %v", r.Outcomes, r.Accuracy())
	}
}

// TestReuseKeepsOnce: a page that comes up again before it has left T1 goes,
// in whichever eviction; back in T1 it may be kept again.
func TestReuseKeepsOnce(t *testing.T) {
	g := newReuse(t, 10, 20, 1, nil)
	now := uint64(1)
	away(g, &now, 0, 1)
	for i, want := range []Fate{Keep, ToT2, Keep, ToT2} {
		if i == 2 {
			g.Miss(now+1, 0)
		}
		if f := g.Fate(Victim{Page: 0, Now: now}); f != want {
			t.Errorf("visit %d: %s, want %s", i, f, want)
		}
	}
	g.Miss(now+1, 0)
	g.Fate(Victim{Page: 0, Now: now + 2}) // kept, then lost without an eviction
	g.Miss(now+5, 0)
	if f := g.Fate(Victim{Page: 0, Now: now + 6}); f != Keep {
		t.Errorf("after coming back to T1: %s, want keep", f)
	}
}

// TestReuseMissBeforeEviction: of warps that run at once, one may have an older time than the
// eviction that it finds: the page was away for no time.
func TestReuseMissBeforeEviction(t *testing.T) {
	g := newReuse(t, 10, 20, 2, nil)
	g.Fate(Victim{Page: 0, Now: 307})
	g.Miss(293, 0)
	if r := g.Report(); r.Classes != [3]uint64{1, 0, 0} {
		t.Errorf("classes %v, want one short", r.Classes)
	}
}

// TestReuseJudgesOnce: an eviction is judged by the first miss after it.
func TestReuseJudgesOnce(t *testing.T) {
	g := newReuse(t, 10, 20, 2, nil)
	g.Miss(1, 0) // never evicted: nothing to judge
	now := uint64(5)
	away(g, &now, 0, 3)
	g.Miss(now+100, 0)
	g.Miss(now+200, 0)
	if r := g.Report(); r.Classes != [3]uint64{1, 0, 0} {
		t.Errorf("classes %v, want one short", r.Classes)
	}
}

func TestReuseUnknownPage(t *testing.T) {
	g := newReuse(t, 10, 20, 2, nil)
	g.Miss(1, 77)
	g.Observe(1, 77)
	if f := g.Fate(Victim{Page: 77}); f != ToT2 {
		t.Errorf("a page that is not known: %s", f)
	}
	g.Grow(78)
	g.Fate(Victim{Page: 77, Now: 5})
	g.Miss(6, 77)
	if r := g.Report(); r.Classes[reuseShort] != 1 {
		t.Errorf("after Grow: %+v", r)
	}
}

// TestReuseStarvation: all evictions are bound for T3, so half of them are
// granted T2 once the window is full.
func TestReuseStarvation(t *testing.T) {
	g := newReuse(t, 1, 1, 1, func(p *GMTReuseParams) { p.Window = 64 })
	now := uint64(1)
	away(g, &now, 0, 1000)
	before := g.Report().Granted
	for range 64 {
		away(g, &now, 0, 1000)
	}
	if got := g.Report().Granted; got != before {
		t.Errorf("%d granted before the window was full of evictions bound for T3", got-before)
	}
	t2 := 0
	for range 100 {
		if away(g, &now, 0, 1000) == ToT2 {
			t2++
		}
	}
	if r := g.Report(); t2 != 50 || r.Granted != 50 {
		t.Errorf("%d of 100 went to T2, %d granted, want 50", t2, r.Granted)
	}
}

// observeLoop runs n rounds over pages, each page touched so often in a row.
func observeLoop(g *GMTReuse, now *uint64, rounds, pages, touches int) {
	for range rounds {
		for p := range Page(pages) {
			for range touches {
				*now++
				g.Observe(*now, p)
			}
		}
	}
}

// TestReuseFits: touching each page of a loop four times gives distances 0
// after 1 access and 99 after 397: VTD = 4*RD + 1. A loop that touches each
// once has a single distance, which is no line: the policy says so and goes
// back to virtual-time distances.
func TestReuseFits(t *testing.T) {
	g := newReuse(t, 10, 200, 1000, func(p *GMTReuseParams) { p.FitEvery, p.VTDDirect = 512, 0 })
	if r := g.Report(); !r.Fallback() || !strings.Contains(r.String(), "no fit yet") {
		t.Errorf("before any fit: %s", r)
	}
	now := uint64(0)
	observeLoop(g, &now, 10, 100, 4)
	r := g.Report()
	if r.Fallback() || r.Fits != 7 || r.Trusted != 7 || r.Samples != 3900 || r.Impossible != 0 {
		t.Fatalf("%d fits, %d trusted, %d samples, %d impossible: %s", r.Fits, r.Trusted, r.Samples, r.Impossible, r)
	}
	if !near(r.Params.Slope, 4, 1) || !near(r.Params.Offset, 1, 1) || r.Params.Version != 7 {
		t.Errorf("parameters %+v", r.Params)
	}
	if want := "VTD = 4*RD+1 (R2 1.000); 7 of 7 fits trusted; 0.0% of predictions right; 0 kept, 0 granted to T2"; r.String() != want {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	g.Fate(Victim{Page: 0, Now: 1000})
	g.Miss(1000+4*209, 0) // a distance below 210: medium; as virtual time, long
	if r := g.Report(); r.Classes != [3]uint64{0, 1, 0} {
		t.Errorf("classes %v, want one medium", r.Classes)
	}
	observeLoop(g, &now, 20, 100, 1)
	r = g.Report()
	if !r.Fallback() || r.Last.Reason != "all samples have the same reuse distance" || r.Refused != 4 || r.Params.Version != 7 {
		t.Errorf("%+v", r)
	}
	if want := "fit not trusted (all samples have the same reuse distance; 4 in a row): the last trusted one stays, VTD = 4*RD+1;"; !strings.HasPrefix(r.String(), want) {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	g.Fate(Victim{Page: 0, Now: 10_000})
	g.Miss(10_000+4*211, 0)
	if r := g.Report(); r.Classes != [3]uint64{0, 1, 1} {
		t.Errorf("classes %v, want a long one", r.Classes)
	}
}

// TestReuseOutOfOrder: the samples of warps that run at once come a little out of order. The
// line is that of the loop all the same, but for as much as the times are off.
func TestReuseOutOfOrder(t *testing.T) {
	g := newReuse(t, 10, 200, 1000, func(p *GMTReuseParams) { p.FitEvery, p.VTDDirect = 512, 0 })
	const warps = 32
	for first := uint64(1); first <= 20*4*1000; first += warps {
		for k := range uint64(warps) {
			now := first + warps - 1 - k // the last first
			g.Observe(now, Page(now/4%1000))
		}
	}
	if r := g.Report(); r.Fits < 100 || r.Trusted != r.Fits || math.Abs(r.Params.Slope-4) > 0.1 || math.Abs(r.Params.Offset) > 2*warps {
		t.Errorf("%d of %d fits trusted: %s", r.Trusted, r.Fits, r)
	}
}

// TestReuseWithoutTrustedFit: virtual-time distances serve, and the report says so.
func TestReuseWithoutTrustedFit(t *testing.T) {
	g := newReuse(t, 10, 200, 1000, func(p *GMTReuseParams) { p.FitEvery, p.VTDDirect = 512, 0 })
	now := uint64(0)
	observeLoop(g, &now, 10, 100, 1)
	r := g.Report()
	if !r.Fallback() || r.Fits != 1 || r.Trusted != 0 || r.Params.Slope != 1 || r.Params.Offset != 0 || r.Params.Version != 0 {
		t.Errorf("%+v", r)
	}
	if want := "fit not trusted (all samples have the same reuse distance): virtual-time distance stands in"; !strings.HasPrefix(r.String(), want) {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	for vtd, want := range map[uint64]reuseClass{9: reuseShort, 10: reuseMedium, 209: reuseMedium, 210: reuseLong} {
		if got := g.params.class(vtd); got != want {
			t.Errorf("vtd %d is class %d, want %d", vtd, got, want)
		}
	}
}

func TestReuseDoesNotAllocate(t *testing.T) {
	const pages = 1000
	g := newReuse(t, 10, 200, pages, nil)
	now := uint64(0)
	run := func() {
		for range 2000 {
			now++
			p := Page(Hash(1, now, 0) % pages)
			g.Observe(now, p)
			g.Miss(now, p)
			g.Fate(Victim{Page: Page(Hash(2, now, 0) % pages), Now: now})
		}
	}
	run() // the first access to a sampled page makes room
	if n := testing.AllocsPerRun(10, run); n != 0 {
		t.Errorf("%v allocations in 2000 accesses", n)
	}
}

func BenchmarkReuseMissFate(b *testing.B) {
	const pages = 1 << 16
	g := newReuse(b, pages/16, pages/4, pages, func(p *GMTReuseParams) { p.K = 16 })
	b.ReportAllocs()
	now := uint64(0)
	for b.Loop() {
		now++
		g.Miss(now, Page(now*40503%pages))
		g.Fate(Victim{Page: Page((now - 1000) * 40503 % pages), Now: now})
	}
}

func BenchmarkReuseObserve(b *testing.B) {
	const pages = 1 << 16
	g := newReuse(b, pages/16, pages/4, pages, nil)
	b.ReportAllocs()
	now := uint64(0)
	for b.Loop() {
		now++
		g.Observe(now, Page(Hash(7, now, 0)%pages))
	}
}
