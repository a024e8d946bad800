// Package placement decides which page leaves a tier, where it goes and by
// which path: pure policies, with no I/O, no clock and no global randomness.
// The live system, the trace simulator and the tuner run the same policies.
// Only LoadFile and SaveFile, which keep a policy's name in a file, do I/O.
//
// # Pages
//
// A policy knows pages by a dense index (Page): the caller maps 64-bit page
// numbers to it and refuses more than MaxPages of them, so that no number is
// ever cut. Virtual time counts accesses: +1 for each, hits included.
//
// # Concurrency
//
// A policy has one owner and is not safe for concurrent use.
package placement

// Page is the dense index of a page: 0 <= Page < the caller's page count.
type Page uint32

// None is no page.
const None Page = 1<<32 - 1

// MaxPages bounds the page count: an access packs a Page and two bits of
// operation into 32 bits.
const MaxPages = 1<<30 - 1

// Pins answers which resident pages may not leave now. A nil Pins pins nothing.
type Pins interface {
	Pinned(p Page) bool
}

// Evictor orders the resident pages of one tier and proposes victims.
//
// The caller keeps residency: it calls Hit and Remove only for resident pages
// and Insert only for absent ones, and inserts only while Len() < Cap(): on a
// full tier it calls Victim first.
type Evictor interface {
	// Name is the policy's name in the grammar, lru for example.
	Name() string
	// Cap is the number of frames that the evictor was made for.
	Cap() int
	// Len is the number of resident pages.
	Len() int
	// Grow prepares for pages with an index below pages. It never shrinks.
	Grow(pages int)
	// Hit records a use of a resident page.
	Hit(p Page)
	// Insert records that p, absent until now, became resident.
	Insert(p Page)
	// Victim chooses the page that leaves so that incoming can be inserted,
	// takes it out and returns it. Pinned pages are skipped and keep their
	// place; when every resident page is pinned it changes nothing and
	// returns None. The search is bounded by the number of residents.
	Victim(incoming Page, pins Pins) Page
	// Remove takes p out for another reason than an eviction (a promotion, an
	// invalidation); no ghost entry remembers it.
	Remove(p Page)
}

// Fate is where a victim of T1 goes.
type Fate uint8

// The fates of a T1 victim.
const (
	Keep Fate = iota // it stays in T1, re-admitted as if just inserted
	ToT2             // it is demoted to host memory
	ToT3             // it skips T2: dropped if clean, written back if dirty
)

// String names the fate.
func (f Fate) String() string {
	switch f {
	case Keep:
		return "keep"
	case ToT2:
		return "t2"
	default:
		return "t3"
	}
}

// Victim describes a page that T1's evictor proposes, for a Placer.
type Victim struct {
	Page  Page
	Dirty bool
	Now   uint64 // virtual time of the access that needs the frame
	Again bool   // already kept once in this eviction: Keep is not open
}

// Placer decides the fate of T1's victims.
type Placer interface {
	// Name is the policy's name in the grammar, gmt-reuse for example.
	Name() string
	// Grow prepares for pages with an index below pages. It never shrinks.
	Grow(pages int)
	// Fate decides where v goes. A Keep for v.Again is taken as ToT2.
	Fate(v Victim) Fate
}

// Steady is a Placer with one fate for every victim, which the engine then need
// not ask for.
type Steady interface {
	Placer
	// Always is that fate, never Keep.
	Always() Fate
}

// Observer is a Placer that learns from the access stream.
type Observer interface {
	Placer
	// Sampled says whether Observe wants the accesses of page p: a fixed
	// function of p, asked once per page.
	Sampled(p Page) bool
	// Observe sees every access, hits included, of a sampled page.
	Observe(now uint64, p Page)
	// Miss sees every T1 miss, before the victim that makes room for it is
	// chosen: how long was p away since its last eviction?
	Miss(now uint64, p Page)
}

// Use is what an access does to its page.
type Use uint8

// The uses of a page, in the order of package tier's Op.
const (
	UseRead      Use = iota
	UseWrite         // writes a part: the rest of the page is needed
	UseOverwrite     // writes the whole page: nothing needs to be fetched
	UsePrefetch      // moves the page to T1; no access, no tick of virtual time
)

// Watcher is an Observer that models the memory, and therefore needs to know
// what accesses do.
type Watcher interface {
	Observer
	// Watch stands for Observe: it sees every access, hits included, and also
	// every prefetch of a sampled page, before anything comes of it.
	Watch(now uint64, p Page, u Use)
}
