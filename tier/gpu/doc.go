// Package gpu is the host's part of the GPU-orchestrated engine: kernels dereference
// arrays whose pages lie in GPU memory, pinned host memory or on drives, and find,
// evict, write back and fetch pages themselves (tier/device). The CPU decides nothing;
// it serves software drives, refreshes gmt-reuse's regression from samples that kernels
// send, and launches the kernels of batch calls.
//
//	e, err := gpu.Open(ctx, gpu.Options{...})
//	ref, err := e.Ref(firstPage, length, elementShift, "name") // by value to any kernel
//	err = kernel.LaunchArgs(stream, shape, ref, ...)
//	err = e.Watch(ctx, event)                                   // ends with an error, not a hang
//
// # Page numbers
//
// The engine's page p is on drive p modulo the number of drives, as in a store without
// checksums. An array is a range of pages.
//
// # Concurrency
//
// Methods may be called from any goroutine, and while kernels run, but for Check,
// Dirty, Forget and Close, which need all kernels to have ended. Engine.mu is the only
// lock: batch calls take turns. The goroutines that refresh, record and tell of events take none.
//
// # Moves by copy engines
//
// Pages move between frames and slots by the warps that need them, zero-copy, or by the
// GPU's copy engines, which a goroutine starts on their request (Options.Moves; ChooseMoves
// decides by the calibration's curves, for each direction, when the Engine opens). A request
// is served in batches of up to 32. The goroutine uses only copies that need no kernel and
// no allocation, since the kernel that waits for them may hold every SM. A warp that finds
// the ring full, is not served within 20 ms, or gets a refusal copies itself, and Stats says
// how many did. A copy that was begun and does not end is ErrMove for its page, and keeps
// its frame or slot out of use until it has ended.
//
// # Ends
//
// Every wait ends. A kernel with I/O in flight is bamio's watchdog's matter. For one without,
// the end of the call's context is; where that has no deadline, a call ends with a *HangError
// once no kernel has made an access for Deadline and 2 s. Kernels of the program that the call
// is behind, in its stream or for want of room, are not asked to end.
//
// The end of a batch's context, and the first wait in vain of a batch, set a stop word
// that only batches look at: they begin no further I/O, wait for what is in flight, and
// lose nothing. Commands that nobody waited for keep their slots, since a drive may
// still use them: time-outs, and kernels that Watch has asked to end, cost slots until
// the drive has answered. Kernels that find no free slot, and every Flush, look whether
// it has, and take them back. A page of which a write ended so has a fence until then: it
// stays dirty in T1 or T2, and what would write it, or drop its array, fails with ErrFenced.
// Where the drive never answers, Salvage ends the GPU's I/O for good, has the drives reset,
// and hands out what they lack for the CPU to write; that is for the end of an engine alone.
package gpu

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package gpu -type kernels -o kernels_gen.go -I . -I ../../cuda/device -I ../../bamio/device -I ../device access.cu
