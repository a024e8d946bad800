package placement

import "fmt"

// evictorDef is a row of the table of evictors.
type evictorDef struct {
	name, doc, source string
	min               int     // frames of the smallest tier in which it makes sense
	params            []param // sorted by name
	future            bool    // needs the whole trace
	// check says what is wrong with values that are in range one by one.
	check func(args []setting) error
	build func(c evictorConfig) (Evictor, error)
}

// evictorConfig is what an evictor is made from. args are in the order of its
// definition's params.
type evictorConfig struct {
	frames, pages int
	seed          uint64
	future        *Future
	args          []setting
}

// evictors is the table of evictors, sorted by name. It is never written.
var evictors = []evictorDef{
	{
		name: "2q", min: MinFrames2Q,
		doc:    "a FIFO for new pages, an LRU for those that come back after leaving it",
		source: "Johnson and Shasha, VLDB 1994, full version",
		params: []param{
			shareParam("kin", "0.25", 1, "share of the frames for new pages"),
			shareParam("kout", "0.5", 1000, "pages remembered after they left, as a multiple of the frames"),
		},
		build: func(c evictorConfig) (Evictor, error) {
			return New2Q(c.frames, c.pages, TwoQParams{Kin: c.args[0].num, Kout: c.args[1].num})
		},
	},
	{
		name: "arc", min: MinFramesARC,
		doc:    "balances recency and frequency by the hits of two ghost lists",
		source: "Megiddo and Modha, FAST 2003",
		build:  func(c evictorConfig) (Evictor, error) { return NewARC(c.frames, c.pages) },
	},
	{
		name: "belady", min: MinFramesBelady, future: true,
		doc:    "the page whose next use is farthest: the optimum, which needs the whole trace",
		source: "Belady, IBM Systems Journal 1966",
		build:  func(c evictorConfig) (Evictor, error) { return NewBelady(c.frames, c.pages, c.future) },
	},
	{
		name: "clock", min: MinFramesClock,
		doc:    "FIFO that gives every page used since the hand's last visit a second chance",
		source: "Corbato, MIT Project MAC 1968",
		build:  func(c evictorConfig) (Evictor, error) { return NewClock(c.frames, c.pages) },
	},
	{
		name: "fifo", min: MinFramesFIFO,
		doc:    "the page that came first",
		source: "classic",
		build:  func(c evictorConfig) (Evictor, error) { return NewFIFO(c.frames, c.pages) },
	},
	{
		name: "lfu", min: MinFramesLFU,
		doc:    "the page used least often since it came, the least recently used of these",
		source: "classic",
		build:  func(c evictorConfig) (Evictor, error) { return NewLFU(c.frames, c.pages) },
	},
	{
		name: "lirs", min: MinFramesLIRS,
		doc:    "the page with the longest time between its last two uses",
		source: "Jiang and Zhang, SIGMETRICS 2002",
		params: []param{
			shareParam("ghost", "2", 1000, "pages remembered after they left, as a multiple of the frames"),
			shareParam("hir", "0.01", 1, "share of the frames for pages with a long time between uses"),
		},
		build: func(c evictorConfig) (Evictor, error) {
			return NewLIRS(c.frames, c.pages, LIRSParams{Ghost: c.args[0].num, HIR: c.args[1].num})
		},
	},
	{
		name: "lru", min: MinFramesLRU,
		doc:    "the page used least recently",
		source: "classic",
		build:  func(c evictorConfig) (Evictor, error) { return NewLRU(c.frames, c.pages) },
	},
	{
		name: "random", min: MinFramesRandom,
		doc:    "any page, by a seeded draw",
		source: "classic",
		build:  func(c evictorConfig) (Evictor, error) { return NewRandom(c.frames, c.pages, c.seed) },
	},
	{
		name: "s3-fifo", min: MinFramesS3FIFO,
		doc:    "a small FIFO that filters pages used once, a main FIFO, and a ghost FIFO",
		source: "Yang et al., SOSP 2023",
		params: []param{
			integerParam("cap", 3, 2, 63, "highest use count that is kept"),
			shareParam("ghost", "1", 1000, "pages remembered after they left, as a multiple of the main queue"),
			integerParam("promote", 1, 1, 62, "uses above which a page moves from the small queue to the main one"),
			shareParam("small", "0.1", 1, "share of the frames for the small queue"),
		},
		check: func(args []setting) error {
			if most, promote := args[0].int(), args[2].int(); promote >= most {
				return fmt.Errorf("promote=%d must be below cap=%d, the highest count", promote, most)
			}
			return nil
		},
		build: func(c evictorConfig) (Evictor, error) {
			return NewS3FIFO(c.frames, c.pages, S3FIFOParams{
				Cap: c.args[0].int(), Ghost: c.args[1].num, Promote: c.args[2].int(), Small: c.args[3].num,
			})
		},
	},
	{
		name: "sieve", min: MinFramesSieve,
		doc:    "FIFO in which a hand removes unused pages and used ones keep their place",
		source: "Zhang et al., NSDI 2024",
		build:  func(c evictorConfig) (Evictor, error) { return NewSieve(c.frames, c.pages) },
	},
	{
		name: "w-tinylfu", min: MinFramesWTinyLFU,
		doc:    "a small LRU window before a segmented LRU that a frequency sketch guards",
		source: "Einziger, Friedman and Manes, ACM TOS 2017",
		params: []param{
			shareParam("protected", "0.8", 1, "share of the main region for pages that were used again"),
			integerParam("reset", 10, 1, 1<<20, "the sketch is halved every so many accesses a frame"),
			shareParam("window", "0.01", 1, "share of the frames for the window"),
		},
		build: func(c evictorConfig) (Evictor, error) {
			return NewWTinyLFU(c.frames, c.pages, WTinyLFUParams{
				Protected: c.args[0].num, Reset: c.args[1].int(), Window: c.args[2].num, Seed: c.seed,
			})
		},
	},
}
