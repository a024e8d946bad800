//go:build !race && (amd64 || arm64)

package mmio

// Store32 writes *p with one plain 32-bit store that follows all earlier
// stores of this goroutine.
//
//go:noescape
func Store32(p *uint32, v uint32)

// Publish is empty: the ordering of Store32 is enough outside race builds.
func Publish() {}

// Observe is empty: the ordering of Load32 is enough outside race builds.
func Observe() {}
