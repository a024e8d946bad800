package sim

import (
	"unsafe"

	"github.com/tritier/tritier/tier"
)

// packed views accesses as the plain numbers that placement.NewFuture takes:
// tier.Access is a uint32, and placement must not import tier.
func packed(accs []tier.Access) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.SliceData(accs)), len(accs))
}
