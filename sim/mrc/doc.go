// Package mrc computes miss-ratio curves: what any size of the tiers would do
// with a trace, from one pass or from a small part of it.
//
//   - LRU: stack distances (Mattson, Gecsei, Slutz and Traiger, IBM Systems
//     Journal 9(2), 1970), exact or sampled by page (SHARDS: Waldspurger, Park,
//     Garthwaite and Ahmad, FAST 2015) at a fixed rate or with a fixed number
//     of pages. tier-order{t1=lru,t2=lru} is LRU over T1 + T2 frames.
//   - Every other policy, three tiers included: simulations over a grid of
//     sizes, on the whole trace or in miniature (Waldspurger, Saemundsson,
//     Ahmad and Park, USENIX ATC 2017).
//   - Belady's MIN: sim.Bound over the same grid, likewise.
//
// # What a curve counts
//
// A curve counts what package sim counts for one size at a time. SSD reads are
// fetches, the accesses that find their page in no tier and need its bytes,
// and prefetches that do. A whole-page write that finds its page in no tier is
// an overwrite: it reads nothing, but its page enters T1 as the youngest, as
// that of any access. Stack distances are therefore kept apart for accesses
// that would fetch and for those that would overwrite.
//
// A prefetch of a page in T1 does not make the page younger, whereas one of an
// absent page enters it as the youngest. So with prefetches the larger memory
// need not hold what the smaller one does, and no single stack describes all
// sizes: exact curves are then simulated size by size. Where that is not
// possible, over a stream, a prefetch counts as a use, and a warning says so.
//
// # Sampling
//
// A sampled curve says how many pages were sampled and which error to expect
// (ExpectedError), and warns below MinSampled pages. The same trace, method and
// seed give the same curve, whatever the number of workers, and the same over a
// stream as over a trace in memory.
package mrc
