// Package bamio lets GPU threads do NVMe I/O themselves: it is the host's side of
// the device headers in bamio/device. A kernel that gets Engine.Ptr writes
// submission entries, rings doorbells and polls completions; no CPU decides
// anything. The queues are libnvm's, over any transport: the software
// controller (which CPU threads serve) or a raw drive.
//
//	d, err := drive.Open(ctx, "mem:1GiB", drive.Options{Access: drive.FreshOnly})
//	e, err := bamio.Open(ctx, bamio.Options{GPU: gpu, Drives: []bamio.Drive{{Name: d.URI.String(), Controller: d.Controller}}})
//	defer e.Close()
//	err = kernel.LaunchArgs(stream, shape, e.Ptr(), ...)
//	err = event.Record(stream)
//	err = e.Watch(ctx, event) // until the kernel ends; a *StallError instead of a hang
//
// # What lies where
//
// Rings lie in host memory that controller and GPU reach. Doorbells are words
// of the software controller's shared memory, or the drive's BAR mapped into
// the GPU. Payload lands in pinned host memory, from where the GPU pulls it,
// or in GPU memory where transport and platform allow; Path says which, and
// what is in the way of a better one.
// Everything that only the GPU uses (counters, command ids) lies in GPU memory.
//
// # Ownership
//
// The queue pairs belong to the GPU from Open to Close: libnvm must neither
// submit to them nor poll them, and a Controller.Reset under a running kernel
// ends in time-outs there. Controllers and drives stay the caller's; close them
// after the engine.
//
// # Concurrency
//
// Methods may be called from any goroutine; Close ends Serve and Watch. Engine.life
// guards who uses the engine, Engine.look the staging memory of snapshots. No lock
// is taken under another, and none is held while a handler runs.
//
// # Lifetime of memory
//
// Close asks kernels to end, waits for the GPU, deletes the queues and gives
// everything back. What a kernel or a controller may still use is never freed:
// then Close returns a *BusyError or a *HeldError, keeps it, and can be called again.
package bamio
