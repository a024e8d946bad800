package placement

import (
	"errors"
	"fmt"
)

// GMTReuse predicts from a page's past evictions how soon it will be used
// again, and places T1's victims by that: GMT-Reuse of Chang et al., ASPLOS
// 2024. It implements Observer.
//
// When a page that was evicted misses, the virtual time that it was away is
// turned into a reuse distance (directly when short, else by a line fitted to
// sampled reuses) and classed as short, medium or long: the page belonged in
// T1, T2 or T3. A Markov chain of first order over these classes predicts the
// class of the page's next eviction. 16 bytes a page, and 2 for sampling at
// k=16; no allocation per access.
type GMTReuse struct {
	params ReuseParams
	pages  []reusePage
	starve starvation
	sample sampler
	ring   []reuseSample // filled up to its capacity between fits
	minR2  float64
	report ReuseReport

	predicted [4]uint64    // evictions by predicted class, unknown included
	outcomes  [4][4]uint64 // judged ones by predicted and right class
}

// reusePage is a page's record. A 64-bit virtual time does not wrap.
type reusePage struct {
	evictedAt uint64
	history   reuseHistory
}

// GMTReuseParams are the parameters of gmt-reuse in the grammar.
type GMTReuseParams struct {
	First     float64 // first: probability that a clean page without history goes to T2, 0 to 1
	FitEvery  int     // fit-every: samples between two fits, 64 to 2^20
	K         int     // k: one in K pages is sampled, 1 to 2^20
	R2        float64 // r2: smallest R2 of a trusted fit, 0 to 1
	Starve    float64 // starve: share of T3-bound evictions above which T2 starves, 0 to 1
	VTDDirect int     // vtd-direct: a virtual-time distance below it is its own reuse distance, 0 to 2^40
	Window    int     // window: evictions that the anti-starvation rule looks back on, 1 to 2^20
}

// gmtReuseParams is GMTReuseParams and t2copy in the grammar, in order of name.
var gmtReuseParams = []param{
	unitParam("first", "0.5", "probability that a clean page without history goes to T2; a dirty one does"),
	integerParam("fit-every", 8192, 64, 1<<20, "samples between two fits of reuse distance to virtual time"),
	integerParam("k", 16, 1, 1<<20, "one in k pages is sampled"),
	unitParam("r2", "0.75", "smallest R2 of a fit that is trusted"),
	unitParam("starve", "0.8", "share of evictions bound for T3 above which every second one goes to T2"),
	t2copy,
	integerParam("vtd-direct", 10240, 0, 1<<40, "a virtual-time distance below it is its own reuse distance"),
	integerParam("window", 4096, 1, 1<<20, "evictions that the anti-starvation rule looks back on"),
}

// DefaultGMTReuseParams are the defaults of the grammar.
func DefaultGMTReuseParams() GMTReuseParams { return gmtReuseArgs(defaults(gmtReuseParams)) }

// gmtReuseArgs are the values of gmtReuseParams.
func gmtReuseArgs(args []setting) GMTReuseParams {
	return GMTReuseParams{
		First: args[0].num, FitEvery: args[1].int(), K: args[2].int(), R2: args[3].num,
		Starve: args[4].num, VTDDirect: args[6].int(), Window: args[7].int(),
	}
}

// check reports every value out of range.
func (p GMTReuseParams) check() error {
	values := [...]float64{p.First, float64(p.FitEvery), float64(p.K), p.R2, p.Starve, 0, float64(p.VTDDirect), float64(p.Window)}
	var errs []error
	for i, q := range gmtReuseParams {
		if q.words == nil && !q.holds(values[i]) {
			errs = append(errs, fmt.Errorf("%s=%s: want %s", q.name, decimal(values[i]), q.bounds()))
		}
	}
	return errors.Join(errs...)
}

// NewGMTReuse makes a GMTReuse for tiers of t1 and t2 frames and pages below
// pages. Without a host tier, t2 is 0.
func NewGMTReuse(t1, t2, pages int, seed uint64, p GMTReuseParams) (*GMTReuse, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if t1 < 1 || t2 < 0 {
		return nil, fmt.Errorf("tiers of %d and %d frames: want at least 1 and 0", t1, t2)
	}
	g := &GMTReuse{
		starve: newStarvation(p.Window, p.Starve),
		sample: sampler{seed: seed, k: uint64(p.K)},
		ring:   make([]reuseSample, 0, p.FitEvery),
		minR2:  p.R2,
	}
	g.params = ReuseParams{
		Slope: 1, Direct: uint64(p.VTDDirect), T1: uint64(t1), T1T2: uint64(t1) + uint64(t2),
		Seed: seed, FirstBelow: drawsBelow(p.First), Window: g.starve.window, StarveAbove: g.starve.above,
	}
	g.params.setBounds()
	g.Grow(pages)
	return g, nil
}

// Name is gmt-reuse.
func (*GMTReuse) Name() string { return "gmt-reuse" }

// Grow prepares for pages below pages.
func (g *GMTReuse) Grow(pages int) {
	g.pages = grown(g.pages, pages)
	g.sample.grow(pages)
}

// Sampled says whether p is one of the sampled pages.
func (g *GMTReuse) Sampled(p Page) bool { return g.sample.samples(p) }

// Observe measures the reuse of a sampled page, and fits anew when the ring of
// samples is full: at a point in virtual time, the same in every replay.
func (g *GMTReuse) Observe(now uint64, p Page) {
	s, ok := g.sample.access(now, p)
	if !ok {
		return
	}
	g.ring = append(g.ring, s)
	if len(g.ring) < cap(g.ring) {
		return
	}
	fit := fitReuse(g.ring, g.minR2)
	g.ring = g.ring[:0]
	g.params.use(fit)
	g.report.addFit(fit)
}

// Miss judges p's last eviction, once: the time that p was away gives the
// class that would have been right.
func (g *GMTReuse) Miss(now uint64, p Page) {
	if int(p) >= len(g.pages) {
		return
	}
	// Whether there is something to judge is a toss-up, and the record is
	// seldom in the cache: without a branch on it, the caller need not wait.
	r := &g.pages[p]
	h := r.history
	c := g.params.class(now - min(now, r.evictedAt)) // times of warps that run at once may be off by a little
	away := one(h&reuseAway != 0)
	g.outcomes[h.next()][c&3] += away
	judged := reuseHistory(-away)
	// The page comes into T1 now: whatever was before, it was not kept yet.
	r.history = (h.judge(c)&judged | h&^judged) &^ reuseFlags
}

// Fate places v by its predicted class. A page is kept once: when it comes up
// again before it has left T1 it goes to T2, or pages that are never used
// again could hold T1 for good.
func (g *GMTReuse) Fate(v Victim) Fate {
	if int(v.Page) >= len(g.pages) {
		return ToT2
	}
	r := &g.pages[v.Page]
	next := r.history.next()
	if next == reuseShort && !v.Again && r.history&reuseKept == 0 {
		r.history |= reuseKept
		g.report.Kept++
		return Keep
	}
	g.predicted[next]++
	to := evictedTo[next]
	if next == reuseUnknown && (v.Dirty || draw(g.params.Seed, v.Now, v.Page) < g.params.FirstBelow) {
		to = ToT2
	}
	if g.starve.grant(to == ToT3) {
		g.report.Granted++
		to = ToT2
	}
	r.evictedAt = v.Now
	r.history = r.history&^reuseKept | reuseAway
	return to
}

// evictedTo is where a page of a class goes when it leaves T1; one without
// history goes there when the draw is against T2.
var evictedTo = [...]Fate{reuseShort: ToT2, reuseMedium: ToT2, reuseLong: ToT3, reuseUnknown: ToT3}
