package copyeng

import "github.com/tritier/tritier/cuda"

// LendDevice makes device memory of the caller a space.
func (g *GPU) LendDevice(m *cuda.DeviceMemory) *Space {
	return &Space{owner: g, kind: DeviceMemory, addr: uint64(m.Ptr()), size: m.Size()}
}

// LendHost makes pinned memory of the caller a space. It fails for memory that
// is not pinned and mapped from end to end.
func (g *GPU) LendHost(mem []byte) (*Space, error) {
	if err := g.alive(); err != nil {
		return nil, err
	}
	if len(mem) == 0 {
		return nil, &BatchError{"host space", "is empty"}
	}
	first, err := g.deviceAddress(mem)
	if err != nil {
		return nil, err
	}
	last, err := g.deviceAddress(mem[len(mem)-1:])
	if err != nil {
		return nil, err
	}
	if last-first != uint64(len(mem)-1) {
		return nil, &BatchError{"host space", "its parts have no contiguous addresses on the GPU: lend each chunk by itself"}
	}
	return &Space{owner: g, kind: HostMemory, addr: first, bytes: mem, size: uint64(len(mem))}, nil
}
