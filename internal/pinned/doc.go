// Package pinned makes the pool of host memory that a GPU reads and writes: one contiguous range of virtual addresses, on the
// NUMA node of the GPU, touched by many threads at once and registered with the driver piece by piece behind them.
//
// A driver that allocates pinned memory itself touches it with one thread: 1.5 to 2 GB/s on an H200's host. Here sixteen threads touch
// while the chunks that are ready get registered. On that host 8 GiB start at 26 GB/s (14 GB/s where the virtual machine's memory is new
// too). Registering memory that is touched runs at 30 to 40 GB/s there, from one thread as from eight, and so one thread does it.
//
// # Chunks
//
// A copy by the CUDA driver must lie within one registration: on driver 580 one that crosses from a chunk into the next fails
// with CUDA_ERROR_INVALID_VALUE, alone or in a batch, although the addresses are contiguous. Chunks are therefore large: 4 GiB by
// default, since 1 GiB starts only a sixth faster and 256 MiB no faster than that. Their boundaries are multiples of [Pool.ChunkBytes], and [Pool.Alloc] never lays a slab that fits into a chunk across a
// boundary. Whoever copies larger extents, or joins neighbouring pages into one copy, cuts at [Pool.ChunkEnd].
//
// # Limits
//
// Memory that does not fit must never be found out by the kernel's out-of-memory killer. [Open] compares the size with every limit
// that it can read before it touches anything, and again while it does, and answers with a [*LimitError] that names the limit. Nor does a
// pool take all that RLIMIT_AS and RLIMIT_DATA leave: Go ends a program whose heap cannot grow (see [HostLimits.Largest]).
//
// # Lifetime
//
// [Pool.Close] unregisters and unmaps. The caller first ends all use of [Pool.Bytes], of slabs and of device addresses, copies in
// flight on the GPU included: a later access from the host faults, one from the GPU may reach memory that has another owner.
//
// Memory is excluded from child processes (MADV_DONTFORK): a fork could otherwise move a page under the device.
//
// # Concurrency
//
// Everything may be called from several goroutines. Callbacks run under no lock of the pool's.
package pinned
