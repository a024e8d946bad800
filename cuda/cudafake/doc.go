// Package cudafake is a GPU in software: it answers the calls of package cuda
// (cuda.OpenBackend) so that what is built on it is tested without a GPU.
//
// What it answers was compared with driver 580 (CUDA 13.0) on an H200: which
// results come at the call and which later, which calls wait for the work in
// flight (freeing memory, loading and unloading modules), what a lost context
// still does. Where the driver would crash or read garbage, the fake refuses
// and says why in Violations.
//
// # What it catches
//
// Work is deferred: an operation runs when somebody asks for its stream or for
// an event behind it (query, synchronise, wait, free), or by itself a while
// after it was queued (Lag). So data read before its stream is synchronised is
// still the old data, or the poison that new memory is filled with. Streams
// interleave in an order drawn from a seed, large copies piece by piece, and
// the copies of a batch run in an order drawn from it too.
//
// Every address is checked against the live allocations when the work runs;
// an access outside loses the context with IllegalAddress, as on a GPU.
// Device and pinned memory come from ranges of their own with unmapped pages
// around each allocation, and addresses are not soon used again: a raw pointer
// that overruns, or outlives, its allocation faults at once. An argument that
// leads to no memory of the host, which would end a program over the driver,
// is InvalidValue and a violation.
//
// # Kernels
//
// Modules are PTX text, of which the fake reads the names and the parameters
// of kernels and the globals; what a kernel does is a Go function, given with
// RegisterKernel. It runs on a goroutine of its own, once for the whole grid.
//
// # Limits
//
// The fake has no unified memory, no graphs and no textures. Copies are not
// faster on more streams. A kernel that ignores Launch.Done cannot be ended:
// Close then says so.
package cudafake
