//go:build race || !(amd64 || arm64)

package mmio

import "sync/atomic"

// edge carries the happens-before relation that the race detector can see.
var edge atomic.Uint32

// Store32 writes *p after all earlier stores of this goroutine.
func Store32(p *uint32, v uint32) {
	Publish()
	atomic.StoreUint32(p, v)
}

// Publish makes this goroutine's earlier writes visible to whoever calls Observe later.
func Publish() { edge.Add(1) }

// Observe orders what follows after every earlier Publish.
func Observe() { edge.Load() }
