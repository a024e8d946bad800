package copyeng

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/pinned"
)

// poolBytes is from what size on host memory comes from a pinned pool, which
// starts ten times faster than cuMemHostAlloc but takes whole chunks.
const poolBytes = 16 << 20

// AllocateHost gives pinned, mapped host memory on the GPU's NUMA node, zeroed,
// that begins at a multiple of MinPage. A *LimitError says which limit is in the
// way.
func (g *GPU) AllocateHost(size uint64) (*Space, error) {
	return g.AllocateHostProgress(context.Background(), size, nil)
}

// AllocateHostProgress is AllocateHost for sizes that take a while: ctx can end
// it, and progress, unless nil, is told how many bytes of all are ready.
func (g *GPU) AllocateHostProgress(ctx context.Context, size uint64, progress func(done, total uint64)) (*Space, error) {
	if err := g.alive(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, &ArgumentError{Call: "AllocateHostProgress", Name: "context", What: "is missing"}
	}
	if size < poolBytes {
		return g.allocateSmall(size)
	}
	pool, err := pinned.Open(ctx, g.poolConfig(size, progress))
	if err != nil {
		return nil, fmt.Errorf("copy engine: %w", closedToo(err))
	}
	addr, err := pool.DeviceAddr(0)
	if err == nil && !pool.Contiguous() {
		err = errors.New("its chunks have no contiguous addresses on the GPU: allocate at most 4 GiB at a time")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy engine: host memory: %w", err), pool.Close())
	}
	// Pages never straddle two registrations, which a copy may not do:
	// chunks begin at multiples of 2 MiB, the largest page.
	return &Space{owner: g, kind: HostMemory, addr: addr, bytes: pool.Bytes()[:size], size: size, free: pool.Close}, nil
}

// allocateSmall takes host memory from the driver. Whole pages of the smallest
// size begin at a multiple of it in practice; CUDA promises 256 bytes, and then
// room for the difference is taken too.
func (g *GPU) allocateSmall(size uint64) (*Space, error) {
	whole := (size + MinPage - 1) / MinPage * MinPage
	m, err := g.ctx.AllocHost(whole, 0)
	if err != nil {
		return nil, fmt.Errorf("copy engine: %w", closedToo(err))
	}
	skip := -uint64(addressOf(m.Bytes())) % MinPage
	if skip != 0 {
		if err := m.Free(); err != nil {
			return nil, fmt.Errorf("copy engine: %w", closedToo(err))
		}
		if m, err = g.ctx.AllocHost(whole+MinPage, 0); err != nil {
			return nil, fmt.Errorf("copy engine: %w", closedToo(err))
		}
		skip = -uint64(addressOf(m.Bytes())) % MinPage
	}
	mem := m.Bytes()[skip:][:size:size]
	clear(mem)
	return &Space{owner: g, kind: HostMemory, addr: uint64(m.DevicePtr().Add(skip)), bytes: mem, size: size, free: m.Free}, nil
}

func (g *GPU) poolConfig(size uint64, progress func(done, total uint64)) pinned.Config {
	node, err := g.ctx.Device().Attribute(cuda.HostNUMAID)
	if err != nil || node < 0 {
		node = pinned.AnyNode // an old driver, or a machine of one node
	}
	return pinned.Config{
		Size: size, Node: node, Progress: progress,
		Register: func(mem []byte) (uint64, func() error, error) {
			r, err := g.ctx.RegisterHost(mem, 0)
			if err != nil {
				return 0, nil, err
			}
			return uint64(r.DevicePtr()), r.Unregister, nil
		},
		OutOfMemory: func(err error) bool { return errors.Is(err, cuda.ErrOutOfMemory) },
	}
}
