package placement

// placerDef is a row of the table of placers.
type placerDef struct {
	name, doc, source string
	t1, t2            string  // default evictors
	params            []param // sorted by name
	build             func(c placerConfig) (Placer, error)
	// scale turns args into those of a miniature; nil when none of them counts
	// accesses, pages or evictions.
	scale func(share float64, args []setting) []setting
}

// placerConfig is what a placer is made from. args are in the order of its
// definition's params.
type placerConfig struct {
	env  Env
	spec Spec // for placers that model the tiers
	args []setting
}

// t2copy is the parameter that every placer has: it is the engine's.
var t2copy = param{
	name: "t2copy", def: "drop", words: []string{"drop", "keep"},
	doc: "what becomes of the clean copy in T2 of a page that moves to T1",
}

// placers is the table of placers, sorted by name. It is never written.
var placers = []placerDef{
	{
		name: "adaptive", t1: "clock", t2: "fifo",
		doc:    "follows the better of tier-order and gmt-reuse, which it runs as models beside the memory",
		source: "this project, after Qureshi et al., ISCA 2007, and Subramanian et al., MICRO 2006",
		params: adaptiveParams,
		build:  newAdaptive,
		scale:  scaleAdaptive,
	},
	{
		name: "bypass", t1: "clock", t2: "fifo",
		doc:    "every victim of T1 skips T2: two tiers",
		source: "Qureshi et al. (BaM), ASPLOS 2023",
		params: []param{t2copy},
		build:  func(placerConfig) (Placer, error) { return NewBypass(), nil },
	},
	{
		name: "gmt-reuse", t1: "clock", t2: "fifo",
		doc:    "places each victim of T1 by the reuse distance that its past evictions predict",
		source: "Chang et al. (GMT), ASPLOS 2024",
		params: gmtReuseParams,
		build: func(c placerConfig) (Placer, error) {
			return NewGMTReuse(c.env.T1Frames, c.env.T2Frames, c.env.Pages, c.env.Seed, gmtReuseArgs(c.args))
		},
		scale: scaleGMTReuse,
	},
	{
		name: "random", t1: "clock", t2: "fifo",
		doc:    "every victim of T1 goes to T2 with probability p, else to T3",
		source: "Chang et al. (GMT), ASPLOS 2024",
		params: []param{
			unitParam("p", "0.5", "probability that a victim goes to T2"),
			t2copy,
		},
		build: func(c placerConfig) (Placer, error) {
			return NewRandomPlacer(c.args[0].num, c.env.Seed)
		},
	},
	{
		name: "tier-order", t1: "lru", t2: "lru",
		doc:    "every victim of T1 goes to T2, every victim of T2 to T3",
		source: "Chang et al. (GMT), ASPLOS 2024",
		params: []param{t2copy},
		build:  func(placerConfig) (Placer, error) { return NewTierOrder(), nil },
	},
}
