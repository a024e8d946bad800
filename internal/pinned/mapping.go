package pinned

import (
	"errors"
	"fmt"
)

// mapping is the memory and what has been registered of it so far: all that must be undone when a start fails or a pool closes.
type mapping struct {
	kernel kernel
	mem    []byte
	base   uint64 // host address
	size   uint64 // of mem, a multiple of the page size
	chunk  uint64 // bytes per registration; the last has the rest
	chunks []chunk
}

// chunk is a part of the memory that is registered at once.
type chunk struct {
	device     uint64
	unregister func() error // nil while it is not registered
}

// newMapping reserves memory and sets its huge pages and policy. Refusals that only cost speed are noted.
func newMapping(cfg Config, p *place, size, huge uint64, note func(string, ...any)) (*mapping, error) {
	mem, err := cfg.kernel.reserve(size, max(ChunkAlign, huge))
	if err != nil {
		return nil, fmt.Errorf("pinned: reserving %s of addresses: %w", formatBytes(size), err)
	}
	m := &mapping{kernel: cfg.kernel, mem: mem, base: address(mem), size: size, chunk: cfg.ChunkBytes}
	m.chunks = make([]chunk, (size+m.chunk-1)/m.chunk)
	if err := m.advise(cfg, p, note); err != nil {
		return nil, errors.Join(err, m.undo())
	}
	return m, nil
}

func (m *mapping) advise(cfg Config, p *place, note func(string, ...any)) error {
	if err := m.kernel.huge(m.mem, cfg.HugePages == HugeTransparent); err != nil && cfg.HugePages == HugeTransparent {
		note("no transparent huge pages: %v", err)
	}
	if err := m.kernel.dontFork(m.mem); err != nil {
		note("memory is shared with child processes: %v", err)
	}
	if p.policy == PolicyAny {
		return nil
	}
	err := m.kernel.bind(m.mem, p.policy, cfg.Node)
	switch {
	case err == nil:
		return nil
	case cfg.Strict || !unsupported(err):
		return fmt.Errorf("pinned: placing the pool on NUMA node %d: %w", cfg.Node, err)
	}
	note("node %d is asked for by touching from its CPUs only (a container may need CAP_SYS_NICE): %v", cfg.Node, err)
	p.policy = PolicyFirstTouch
	return nil
}

// span returns the bytes of a chunk.
func (m *mapping) span(k int) (off, end uint64) {
	off = uint64(k) * m.chunk
	return off, min(off+m.chunk, m.size)
}

// contiguous says whether device addresses follow each other as host addresses do.
func (m *mapping) contiguous() bool {
	for k, c := range m.chunks {
		if off, _ := m.span(k); c.device != m.chunks[0].device+off {
			return false
		}
	}
	return true
}

// undo unregisters what is registered, last first, and unmaps everything. A chunk whose registration stays is blanked: its memory goes
// back, but no later mapping may come to lie at addresses that the driver still takes for pinned, since copies there would silently
// reach the old pages.
func (m *mapping) undo() error {
	var errs []error
	stuck := make([]bool, len(m.chunks))
	for k := len(m.chunks) - 1; k >= 0; k-- {
		if m.chunks[k].unregister == nil {
			continue
		}
		if err := m.chunks[k].unregister(); err != nil {
			off, end := m.span(k)
			stuck[k] = true
			errs = append(errs, &UnregisterError{k, off, end - off, err})
		}
		m.chunks[k].unregister = nil
	}
	if len(errs) == 0 {
		return m.kernel.release(m.mem)
	}
	for k := range m.chunks {
		off, end := m.span(k)
		if stuck[k] {
			errs = append(errs, m.kernel.blank(m.mem[off:end]))
		} else {
			errs = append(errs, m.kernel.release(m.mem[off:end]))
		}
	}
	return errors.Join(errs...)
}
