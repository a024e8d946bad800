package copyeng

import (
	"fmt"

	"github.com/tritier/tritier/cuda"
)

// LendDevice makes device memory of the caller a space. The memory must not be
// freed while a batch that uses the space is in flight, and is the caller's to
// free after the space is closed.
//
// A *LendError refuses nil, memory that was freed, and memory of another
// context than the engine's; shares of one primary context count as one. Also
// memory of a peer is refused: the engine's paths take the device's own. A
// closed engine gives ErrClosed.
func (g *GPU) LendDevice(m *cuda.DeviceMemory) (*Space, error) {
	if err := g.alive(); err != nil {
		return nil, err
	}
	switch {
	case m == nil:
		return nil, &LendError{DeviceMemory, 0, "there is none: the memory is nil"}
	case !g.ctx.Same(m.Context()):
		return nil, &LendError{DeviceMemory, 0, fmt.Sprintf("it belongs to another context than the engine's, which is that of %s", g.Name())}
	case m.Freed():
		return nil, &LendError{DeviceMemory, 0, "it was freed"}
	}
	return &Space{owner: g, kind: DeviceMemory, addr: uint64(m.Ptr()), size: m.Size()}, nil
}

// LendHost makes pinned memory of the caller a space: memory that cuda.Context's
// AllocHost or RegisterHost has pinned and mapped, from end to end, and that
// kernels of the engine's context can reach. It must begin at a multiple of
// MinPage, and must stay pinned while a batch that uses the space is in flight.
//
// The memory may consist of several allocations or registrations only if each
// but the first begins at a multiple of MaxPage from the memory's beginning:
// CUDA refuses a copy that goes across the border of two, and so no page of any
// size lies across one. Otherwise the loan is a *LendError that names the offset
// of the first byte in the way. A closed engine gives ErrClosed.
func (g *GPU) LendHost(mem []byte) (*Space, error) {
	if err := g.alive(); err != nil {
		return nil, err
	}
	if err := checkLoan(mem); err != nil {
		return nil, err
	}
	l := loan{ctx: g.ctx, base: uint64(addressOf(mem)), size: uint64(len(mem))}
	if err := l.walk(); err != nil {
		return nil, err
	}
	return &Space{owner: g, kind: HostMemory, addr: uint64(l.first.DevicePtr), bytes: mem, size: l.size}, nil
}

// loan is host memory that is looked up from end to end.
type loan struct {
	ctx        *cuda.Context
	base, size uint64
	first      cuda.PointerInfo // of the first byte
}

// walk goes from allocation to allocation. Where the driver does not say how
// far one reaches it goes in steps of MaxPage, of which the first and the last
// byte must be of one allocation.
func (l *loan) walk() error {
	var before cuda.PointerInfo
	for off := uint64(0); off < l.size; {
		info, err := l.at(off)
		if err != nil {
			return err
		}
		if off > 0 && off%MaxPage != 0 && !sameAllocation(before, info) {
			return l.refuse(off, fmt.Sprintf("another allocation or registration begins, and not at a multiple of %d bytes: pages would lie across the border, which no copy may do; lend each by itself", MaxPage))
		}
		n := min(l.reach(info, off), l.size-off)
		last, err := l.at(off + n - 1)
		if err != nil {
			return err
		}
		if !sameAllocation(info, last) {
			return l.refuse(off+n-1, fmt.Sprintf("another allocation or registration than the one at byte %d, with a border between them where pages lie; lend each by itself", off))
		}
		before = last
		off += n
	}
	return nil
}

// at looks up a byte, which must lie as far from the first for the GPU as for
// the CPU.
func (l *loan) at(off uint64) (cuda.PointerInfo, error) {
	info, err := l.ctx.PointerInfo(cuda.Ptr(l.base + off))
	switch {
	case err != nil:
		return info, fmt.Errorf("copy engine: lend host memory: byte %d: %w", off, closedToo(err))
	case info.Type != cuda.MemoryHost || info.Managed:
		return info, l.refuse(off, fmt.Sprintf("%s instead of pinned host memory: allocate it with AllocateHost, or pin all of it with cuda.Context.RegisterHost", nature(info)))
	case info.DevicePtr == 0:
		return info, l.refuse(off, "pinned memory that this context cannot reach: pin it in this context, or in another with cuda.Portable and cuda.Mapped")
	}
	if off == 0 {
		l.first = info
	}
	if info.DevicePtr != l.first.DevicePtr.Add(off) {
		return info, l.refuse(off, fmt.Sprintf("at %s for the GPU, which does not follow what is before it, from %s on: lend each part by itself", info.DevicePtr, l.first.DevicePtr))
	}
	return info, nil
}

// reach is how many bytes from off on are the driver's to be one allocation: up
// to its end, or up to the next multiple of MaxPage where the driver does not
// tell. The range is one of addresses as the CPU or as the GPU has them.
func (l *loan) reach(info cuda.PointerInfo, off uint64) uint64 {
	for _, at := range []uint64{l.base + off, uint64(info.DevicePtr)} {
		if from := at - uint64(info.Start); at >= uint64(info.Start) && from < info.Size {
			return info.Size - from
		}
	}
	return MaxPage - off%MaxPage
}

func (l *loan) refuse(off uint64, what string) error { return &LendError{HostMemory, off, what} }

// sameAllocation says whether two addresses are of one allocation, as far as
// the driver tells: by what identifies it, or else by its range.
func sameAllocation(a, b cuda.PointerInfo) bool {
	if a.BufferID != 0 && b.BufferID != 0 {
		return a.BufferID == b.BufferID
	}
	return a.BufferID == b.BufferID && a.Start == b.Start && a.Size == b.Size
}

// nature says what the memory is instead of pinned.
func nature(info cuda.PointerInfo) string {
	switch {
	case info.Managed:
		return "managed memory"
	case info.Type == cuda.MemoryUnknown:
		return "memory unknown to CUDA"
	}
	return info.Type.String() + " memory"
}
