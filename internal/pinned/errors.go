package pinned

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is the error of a pool that has been closed.
	ErrClosed = errors.New("pinned: the pool is closed")
	// ErrUnsupported says that this operating system does not offer what was asked.
	ErrUnsupported = errors.New("pinned: not available on this operating system")
)

// Names of limits, as [LimitError.Limit] has them.
const (
	LimitMemory       = "physical memory"
	LimitNode         = "NUMA node memory"
	LimitAllowedNodes = "cpuset.mems"
	LimitCommit       = "vm.overcommit_memory"
	LimitMaps         = "vm.max_map_count"
	LimitAddressSpace = "RLIMIT_AS"
	LimitData         = "RLIMIT_DATA"
	LimitMemlock      = "RLIMIT_MEMLOCK"
	// A control group's limits are named after their file: "cgroup memory.max", "cgroup memory.high" (version 2),
	// "cgroup memory.limit_in_bytes" (version 1).
	limitCgroup = "cgroup "
)

// LimitError says that a pool does not fit into one of the machine's limits.
type LimitError struct {
	Limit string // which: see the constants
	On    string // the control group or the node; "" where there is one only
	Have  uint64 // what is left of it, bytes (mappings for vm.max_map_count)
	Need  uint64 // what the pool takes, a reserve included
	Hint  string // what to do
}

func (e *LimitError) Error() string {
	limit := e.Limit
	if e.On != "" {
		limit += " of " + e.On
	}
	have, need := formatBytes(e.Have), formatBytes(e.Need)
	if e.Limit == LimitMaps {
		have, need = fmt.Sprint(e.Have), fmt.Sprint(e.Need)
	}
	return fmt.Sprintf("pinned: does not fit %s: %s needed, %s left: %s", limit, need, have, e.Hint)
}

// NodeError says that a NUMA node was asked for that the machine does not have.
type NodeError struct {
	Node int
	Have []int
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("pinned: there is no NUMA node %d: this machine has %v; use -1 for any", e.Node, e.Have)
}

// TouchError says that memory could not be populated. Likely is the limit that explains it, or nil.
type TouchError struct {
	Offset, Size uint64
	Err          error
	Likely       *LimitError
}

func (e *TouchError) Error() string {
	return because(fmt.Sprintf("pinned: cannot populate %s at offset %s: %v", formatBytes(e.Size), formatBytes(e.Offset), e.Err), e.Likely)
}

// Unwrap gives the cause and, where one is known, the limit.
func (e *TouchError) Unwrap() []error { return causes(e.Err, e.Likely) }

// RegisterError says that a chunk could not be registered with the device's driver. Likely is the limit that may explain it, or nil.
type RegisterError struct {
	Chunk        int
	Offset, Size uint64
	Err          error
	Likely       *LimitError
}

func (e *RegisterError) Error() string {
	return because(fmt.Sprintf("pinned: cannot register chunk %d (%s at offset %s): %v", e.Chunk, formatBytes(e.Size), formatBytes(e.Offset), e.Err), e.Likely)
}

// Unwrap gives the cause and, where one is known, the limit.
func (e *RegisterError) Unwrap() []error { return causes(e.Err, e.Likely) }

// UnregisterError says that a chunk could not be unregistered. Its memory is given back all the same, but its addresses stay reserved
// for as long as the process lives: the driver may still take them for the old memory.
type UnregisterError struct {
	Chunk        int
	Offset, Size uint64
	Err          error
}

func (e *UnregisterError) Error() string {
	return fmt.Sprintf("pinned: cannot unregister chunk %d (%s at offset %s), its addresses stay reserved: %v", e.Chunk, formatBytes(e.Size), formatBytes(e.Offset), e.Err)
}

// Unwrap gives the cause.
func (e *UnregisterError) Unwrap() error { return e.Err }

func because(s string, likely *LimitError) string {
	if likely == nil {
		return s
	}
	return s + "; a likely cause: " + likely.Error()
}

func causes(err error, likely *LimitError) []error {
	if likely == nil {
		return []error{err}
	}
	return []error{err, likely}
}

// RangeError says that bytes outside the pool were named.
type RangeError struct{ Offset, Size uint64 }

func (e *RangeError) Error() string {
	return fmt.Sprintf("pinned: offset %d is outside the pool of %d bytes", e.Offset, e.Size)
}

// FullError says that no free extent of the pool takes a slab.
type FullError struct {
	Need, Align uint64
	Free        uint64 // bytes free in all
	Largest     uint64 // largest free extent; alignment or a chunk's boundary can make even a smaller slab not fit
}

func (e *FullError) Error() string {
	return fmt.Sprintf("pinned: no room for %s (alignment %s): %s free, the largest extent has %s: free slabs or open a larger pool",
		formatBytes(e.Need), formatBytes(e.Align), formatBytes(e.Free), formatBytes(e.Largest))
}

// FreeError says that a slab was freed twice.
type FreeError struct{ Offset, Size uint64 }

func (e *FreeError) Error() string {
	return fmt.Sprintf("pinned: the slab of %d bytes at offset %d was freed before", e.Size, e.Offset)
}

// formatBytes writes a number of bytes with the largest binary unit that leaves at least 1, with one decimal place where it is not whole.
func formatBytes(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i, div := 0, uint64(1)
	for i < len(units)-1 && n/div >= 1024 {
		i, div = i+1, div*1024
	}
	if n%div == 0 {
		return fmt.Sprintf("%d %s", n/div, units[i])
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(div), units[i])
}
