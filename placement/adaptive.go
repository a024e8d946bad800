package placement

// Adaptive follows tier-order or gmt-reuse, whichever needs fewer SSD fetches
// here and now. Both run as shadows, models of T1 and T2 without data that see
// the same accesses, over all pages while T1 and T2 have at most as many frames
// as a shadow may have (4,096), and above that over a part of the pages chosen
// by hash, with tiers that are smaller by as much (set duelling: Qureshi et al., ISCA 2007;
// spatial sampling: Waldspurger et al., FAST 2015 and USENIX ATC 2017).
//
// Bypass needs no shadow of its own: without a Keep, T1 holds the same pages
// whatever becomes of its victims, so that bypass fetches what misses in T1 of
// tier-order's shadow. Hence it never fetches less than tier-order, and is
// counted but not followed.
//
// Which one is followed changes by regret: fetches that the other would have
// saved, less those that it would have added, since that was last zero. A
// switch has a price: pages that the other's shadow holds and the real memory
// does not, and which may have to be fetched again. It is made when the regret
// exceeds a part of the price and of the tiers (as in ski rental, and in
// Adaptive Caches: Subramanian, Smaragdakis and Loh, MICRO 2006).
//
// A switch must find the memory ready for it. So gmt-reuse always learns from
// what the real memory evicts, whoever is followed; while it is followed, what
// it would send to T3 goes to T2 if a slot is free; and T2 gives up such pages
// before any other (see giving). With that, following gmt-reuse costs no hit
// that it would have had alone, and often fetches far less.
//
// Build makes it. It implements Watcher; no allocation per access. 16 bytes a
// page for gmt-reuse (and 2 for sampling at k=16) and 9 for T2's order; 1 and the evictors' own bytes, twice,
// and 17 for each page that the shadows see.
type Adaptive struct {
	real    *GMTReuse // learns from the real memory
	giving  *giving   // the real T2; nil without one
	shadows ranks     // the pages that the shadows see
	order   *shadow   // tier-order's
	reuse   *shadow   // gmt-reuse's
	twin    *GMTReuse // the placer in it
	duel    duel
	now     uint64
	since   uint64    // virtual time of the last switch
	led     [2]uint64 // accesses until then, by who was followed
	bypass  uint64    // fetches of bypass
	seen    uint64    // accesses that the shadows saw
	pages   int       // pages of these
}

// adaptiveParams is what adaptive takes in the grammar, in order of name:
// gmt-reuse's parameters and its own.
var adaptiveParams = []param{
	gmtReuseParam("first"),
	gmtReuseParam("fit-every"),
	unitParam("hysteresis", "0.02", "regret, as a share of the frames of T1 and T2, below which no switch is made"),
	gmtReuseParam("k"),
	unitParam("price", "0.5", "share of a switch's price, pages to be fetched again, that the regret must exceed as well"),
	gmtReuseParam("r2"),
	integerParam("shadow-frames", 4096, 64, 1<<30, "frames of T1 and T2 up to which the shadows see every page; above, as many frames of a sample"),
	gmtReuseParam("starve"),
	t2copy,
	gmtReuseParam("vtd-direct"),
	gmtReuseParam("window"),
}

// gmtReuseParam is gmt-reuse's parameter of that name.
func gmtReuseParam(name string) param { return gmtReuseParams[paramIndex(gmtReuseParams, name)] }

// adaptiveArg is the value of one of adaptiveParams.
func adaptiveArg(args []setting, name string) setting { return args[paramIndex(adaptiveParams, name)] }

// newAdaptive makes an Adaptive for c, whose evictors the shadows have too.
func newAdaptive(c placerConfig) (Placer, error) {
	args := make([]setting, len(gmtReuseParams))
	for i, p := range gmtReuseParams {
		args[i] = adaptiveArg(c.args, p.name)
	}
	env, params := c.env, gmtReuseArgs(args)
	real, err := NewGMTReuse(env.T1Frames, env.T2Frames, 0, env.Seed, params)
	if err != nil {
		return nil, err
	}
	frames := env.T1Frames + env.T2Frames
	every := (frames + adaptiveArg(c.args, "shadow-frames").int() - 1) / adaptiveArg(c.args, "shadow-frames").int()
	if c.spec.NeedsFuture() {
		every = 1 // a Future knows pages by their own index only
	}
	a := &Adaptive{real: real, twin: real.twin(params, every), shadows: ranks{seed: env.Seed ^ shadowSeed, every: uint64(every)}}
	keep := adaptiveArg(c.args, t2copy.name).text == "keep"
	if a.order, err = newShadow(c.spec, env, every, keep, NewTierOrder()); err != nil {
		return nil, err
	}
	if a.reuse, err = newShadow(c.spec, env, every, keep, a.twin); err != nil {
		return nil, err
	}
	a.duel = newDuel(a.order.frames(), adaptiveArg(c.args, "hysteresis").num, adaptiveArg(c.args, "price").num)
	a.order.duel, a.reuse.duel = &a.duel, &a.duel
	a.Grow(env.Pages)
	return a, nil
}

// shadowSeed keeps the choice of the shadows' pages apart from other draws.
const shadowSeed = 0x736861646f77

// Name is adaptive.
func (*Adaptive) Name() string { return "adaptive" }

// Grow prepares for pages below pages.
func (a *Adaptive) Grow(pages int) {
	a.real.Grow(pages)
	n := a.shadows.grow(pages)
	a.order.grow(n)
	a.reuse.grow(n)
	a.duel.grow(n)
}

// Sampled says whether the shadows or gmt-reuse's fits want p's accesses.
func (a *Adaptive) Sampled(p Page) bool { return a.shadows.chosen(p) || a.real.Sampled(p) }

// Observe is Watch for a caller that does not say what accesses do.
func (a *Adaptive) Observe(now uint64, p Page) { a.Watch(now, p, UseRead) }

// Watch runs the shadows one access further and decides whom to follow.
func (a *Adaptive) Watch(now uint64, p Page, u Use) {
	a.now = now
	if u != UsePrefetch {
		a.real.Observe(now, p)
		a.twin.follow(a.real)
	}
	rank, ok := a.shadows.rank(p)
	if !ok {
		return
	}
	if u != UsePrefetch {
		a.seen++
	}
	needs := u == UseRead || u == UseWrite
	real := needs && a.duel.held[rank]&holdsReal == 0
	inT1, order := a.order.access(now, rank, u)
	_, reuse := a.reuse.access(now, rank, u)
	if !inT1 && needs {
		a.bypass++
	}
	if a.duel.held[rank]&wasSeen == 0 {
		a.pages++
	}
	a.duel.enter(rank, holdsT1|wasSeen) // the access brings it into T1, if it was not there
	if a.duel.fetched(order, reuse, real) {
		a.led[1-a.duel.leader] += now - a.since
		a.since = now
		if a.giving != nil {
			a.giving.early = a.duel.leader == leadReuse
		}
	}
}

// Miss tells gmt-reuse of a T1 miss of the real memory.
func (a *Adaptive) Miss(now uint64, p Page) {
	a.real.Miss(now, p)
	if a.giving != nil {
		a.giving.used(p)
	}
}

// Fate places v as the one that is followed would.
func (a *Adaptive) Fate(v Victim) Fate {
	to := a.real.Fate(v)
	if a.duel.leader == leadOrder && to == Keep {
		v.Again = true // it is evicted now: gmt-reuse has to know
		to = a.real.Fate(v)
	}
	if to == Keep {
		return Keep
	}
	if a.giving != nil && (!a.giving.mark(v.Page, to == ToT3) || a.duel.leader == leadOrder || a.giving.room()) {
		to = ToT2
	}
	return a.evicted(v.Page, to)
}

// evicted notes that p leaves T1.
func (a *Adaptive) evicted(p Page, to Fate) Fate {
	if rank, ok := a.shadows.rank(p); ok {
		a.duel.leave(rank, holdsT1)
	}
	return to
}

// wrapT2 is the real memory's T2: t2, with pages given up in another order.
func (a *Adaptive) wrapT2(t2 Evictor) Evictor {
	a.giving = newGiving(t2, a)
	a.giving.Grow(a.shadows.pages)
	return a.giving
}
