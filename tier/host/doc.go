// Package host is the host-orchestrated engine: three tiers whose page table the
// CPU owns. Batches of elements are turned into page accesses, a tier.Plan decides
// about each exactly as the simulator would, and the moves of a wave run together.
//
// The package moves no byte itself: it is given an Engine, which copies between T1's
// frames and T2's slots and moves elements, and a Store, which is T3.
//
// # Concurrency
//
// Methods of Memory may be called from any goroutine; batches take turns, so that
// each sees the memory as the one before left it. Lock order: Memory.mu is the only
// lock, held for the length of a batch; Engine and Store are called under it.
//
// # Failures
//
// A read of T3 that fails leaves its page absent and fails the accesses that wanted
// it. A write-back that fails leaves the victim where it was, dirty, and fails the
// accesses that needed its place. Both are tried again first, Options.Retries times.
// When a copy between T1 and T2 fails, the contents of the tiers are unknown; when the store does not
// say what became of an operation, or cannot end one that timed out, slots may still be used by
// a drive. The memory then refuses further work with a *BrokenError that names the pages that T3
// lacks. In the second case T1 and T2 still hold these: Memory.Kept says where.
package host
