// Package mmio has the few memory operations that a queue shared with a device
// needs and that sync/atomic does not offer in the right form.
//
// A doorbell must be one plain 32-bit store that follows every earlier store.
// atomic.StoreUint32 on amd64 is a locked XCHG, which a device register would
// see as a read followed by a write and which costs a full barrier, so Store32
// is written in assembly: MOV on amd64 (stores stay in order there), a
// store-store barrier and STR on arm64.
//
// The race detector looks only at memory of the Go heap and data segment, so
// neither assembly stores nor atomics on mapped memory make an edge that it
// can see. In race builds Publish and Observe make that edge on an ordinary Go
// variable; in other builds they are empty and vanish.
package mmio

import "sync/atomic"

// Load32 reads *p once, with acquire ordering: later reads see at least what
// the writer of the value had stored before it.
func Load32(p *uint32) uint32 {
	v := atomic.LoadUint32(p)
	Observe()
	return v
}
