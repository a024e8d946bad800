// Package uring is a small io_uring: asynchronous reads, writes, fdatasync and
// fallocate on files and block devices.
//
// A Ring is passive: it has no goroutine. One goroutine at a time prepares
// operations (Read, Write, ...), submits them in a batch (Submit) and reaps
// completions (Wait, Reap). Close may be called from the same goroutine only,
// after every operation has been reaped; the kernel may otherwise still write
// to the caller's buffers.
//
// # Memory ordering
//
// The submission and completion rings are shared with the kernel. The side that
// consumes a ring advances its head with a release store and the side that
// fills it advances the tail with one; each loads the other's index with
// acquire. Go's sync/atomic is sequentially consistent and so stronger.
//
// # Buffers
//
// A buffer belongs to the kernel from Read or Write until its Completion has
// been reaped. The ring keeps it reachable meanwhile. Go's collector does not
// move heap memory; memory outside the heap (mmap) must stay mapped.
package uring
