package volume

import (
	"errors"
	"fmt"
)

// Memory is memory that every member of a volume can reach.
type Memory struct {
	buf  []byte
	maps []Mapping
}

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.buf }

// Free gives the memory back. No batch may use it any more; while a member may
// still move data to or from it, after a time-out, an error comes back and the
// memory stays.
func (m *Memory) Free() error {
	for len(m.maps) > 0 {
		// The first mapping, last here, owns the memory.
		last := len(m.maps) - 1
		if err := m.maps[last].Free(); err != nil {
			return err
		}
		m.maps = m.maps[:last]
	}
	m.buf = nil
	return nil
}

// Alloc returns zeroed memory for pages.
func (v *Volume) Alloc(bytes int) (*Memory, error) {
	buf, first, err := v.members[0].Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("volume: %s: allocate %d bytes: %w", v.members[0].Name(), bytes, err)
	}
	return v.mapRest(&Memory{buf: buf, maps: []Mapping{first}})
}

// Map makes the caller's memory, such as a pinned pool, usable for pages. It
// must be page-aligned, must not move, and must stay until Free.
func (v *Volume) Map(buf []byte) (*Memory, error) {
	first, err := v.members[0].Map(buf)
	if err != nil {
		return nil, fmt.Errorf("volume: %s: map %d bytes: %w", v.members[0].Name(), len(buf), err)
	}
	return v.mapRest(&Memory{buf: buf, maps: []Mapping{first}})
}

func (v *Volume) mapRest(m *Memory) (*Memory, error) {
	for _, member := range v.members[1:] {
		x, err := member.Map(m.buf)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("volume: %s: map %d bytes: %w", member.Name(), len(m.buf), err), m.Free())
		}
		m.maps = append(m.maps, x)
	}
	return m, nil
}
