// Package copyeng moves pages between host and GPU memory by the fastest path
// of the machine it runs on.
//
// An Engine knows two kinds of memory, Spaces: pinned host memory and device
// memory. A Batch names pages of one size by their numbers in a host space and
// a device space and a direction; a Queue takes batches, carries them out in
// order, and is waited for. Two engines implement this: GPU (package cuda) and
// Host, which keeps the device's space in ordinary memory and serves machines
// without a GPU, and tests, as the reference.
//
// # Paths
//
// A GPU has several ways to copy n scattered pages, and which is fastest
// depends on page size, number and direction:
//
//   - memcpy-async: one cuMemcpyHtoDAsync or DtoHAsync a page. Least latency
//     for one or two pages; about 2 us of CPU time a page.
//   - batch: one cuMemcpyBatchAsync (CUDA 12.8) for all; batch-2 and batch-4
//     spread it over several streams, hence over several copy engines.
//   - zero-copy: one kernel whose threads load from or store to host memory.
//     Best for many small pages; takes part of the GPU's SMs.
//   - hybrid: part of the pages by kernel, the rest by batch at the same time.
//     Copy engines ask for larger pieces over PCIe than SMs do, so that both
//     together come closer to the link's rate than either.
//
// GMT (ASPLOS 2024) fixes the crossover at 8 pages; here it is a measured
// curve. Calibrate measures all paths on the GPU at hand, a Calibration is
// stored as a readable file per GPU and driver, and the chooser takes, for each
// batch, the path whose interpolated time is least. Choice says which and why.
//
// # Exchange
//
// Pages often move both ways at once: a victim leaves while the wanted page
// comes in. Two kernels that compete for the link starve each other, reads
// mostly by writes; Queue.Exchange carries both directions out in one kernel
// that paces them against each other, or, where the curves say so, by batched
// copies both ways (large pages) or one direction after the other (few pages).
//
// # Lifetime and order
//
// Batches of one Queue run in order. Memory of a batch belongs to the engine
// until the queue was waited for: host memory must stay pinned, neither side
// may be changed, and no destination page may be written by two batches in
// flight on different queues. Pairs may be reused as soon as Copy returns.
// Within a batch, pages run in any order: a destination listed twice gets
// one of the sources, possibly torn.
//
// A failed copy is never lost: it comes back from the call that started it,
// or from Wait, and for a sticky error of the GPU from every call after.
//
// Engines and queues are safe for concurrent use; calls on one queue take turns.
package copyeng
