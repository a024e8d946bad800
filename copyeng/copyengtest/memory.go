package copyengtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tritier/tritier/copyeng"
)

// granule is the unit of the reference model, in bytes: the smallest page.
const granule = copyeng.MinPage

// window is a part of a space whose contents are known: each granule holds the
// stream of bytes that its tag begins. Tags are random, so that all data is
// fresh, and copying in the model is copying tags.
type window struct {
	offset uint64 // in the space, a multiple of granule
	tags   []uint64
}

// memory is a space and the model of it. Different goroutines may use
// different pages of it at once.
type memory struct {
	name    string
	space   *copyeng.Space
	read    func(offset uint64, into []byte) error
	write   func(offset uint64, data []byte) error
	windows []window // in order of offset
}

func readBytes(s *copyeng.Space, offset uint64, into []byte) error {
	mem := s.Bytes()
	if mem == nil {
		return errors.New("this engine's device memory has no Bytes: set Options.ReadDevice")
	}
	copy(into, mem[offset:])
	return nil
}

func writeBytes(s *copyeng.Space, offset uint64, data []byte) error {
	mem := s.Bytes()
	if mem == nil {
		return errors.New("this engine's device memory has no Bytes: set Options.WriteDevice")
	}
	copy(mem[offset:], data)
	return nil
}

// newMemory makes the model of a space: of all of it, without windows.
func newMemory(name string, s *copyeng.Space, o *Options, windows ...window) *memory {
	read, write := readBytes, writeBytes
	if s.Kind() == copyeng.DeviceMemory {
		read, write = o.ReadDevice, o.WriteDevice
	}
	if len(windows) == 0 {
		windows = []window{{0, make([]uint64, s.Size()/granule)}}
	}
	return &memory{
		name:    name,
		space:   s,
		read:    func(offset uint64, into []byte) error { return read(s, offset, into) },
		write:   func(offset uint64, data []byte) error { return write(s, offset, data) },
		windows: windows,
	}
}

// tags are the tags of size bytes at offset; nil if no window has them all.
func (m *memory) tags(offset, size uint64) []uint64 {
	for _, w := range m.windows {
		if offset >= w.offset && offset+size <= w.offset+uint64(len(w.tags))*granule {
			return w.tags[(offset-w.offset)/granule:][:size/granule]
		}
	}
	return nil
}

// mix is the finalizer of splitmix64: a bijection without visible pattern.
//
//go:norace
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// content writes the granule that a tag stands for. It writes to buffers of one
// goroutine only; watched by the race detector, word for word, it would be most
// of the suite's time.
//
//go:norace
func content(into []byte, tag uint64) {
	for i := 0; i+8 <= len(into); i += 8 {
		binary.LittleEndian.PutUint64(into[i:], mix(tag))
		tag += 0x9e3779b97f4a7c15
	}
}

// stretch is how much is read or written at a time, in granules.
const stretch = 512

// poison gives all of the memory fresh contents.
func (m *memory) poison(r *rand.Rand) error {
	buf := make([]byte, stretch*granule)
	for _, w := range m.windows {
		for i := range w.tags {
			w.tags[i] = r.Uint64()
		}
		for i := 0; i < len(w.tags); i += stretch {
			part := w.tags[i:min(i+stretch, len(w.tags))]
			for k, tag := range part {
				content(buf[k*granule:][:granule], tag)
			}
			if err := m.write(w.offset+uint64(i)*granule, buf[:len(part)*granule]); err != nil {
				return fmt.Errorf("writing %s memory beside the engine: %w", m.name, err)
			}
		}
	}
	return nil
}

// wrong is a granule that has not the contents it should.
type wrong struct {
	offset uint64 // of the first wrong byte, in the space
	first  uint64 // the granule's first word, if wrong: it tells whose data it is
	bytes  int    // how many are wrong
}

// compare looks at every byte of the windows.
func (m *memory) compare() (list []wrong, err error) {
	for _, w := range m.windows {
		found, err := m.compareTags(w.offset, w.tags)
		list = append(list, found...)
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// compareTags looks at every byte from offset on against tags.
func (m *memory) compareTags(offset uint64, tags []uint64) (list []wrong, err error) {
	buf, want := make([]byte, min(stretch, len(tags))*granule), make([]byte, granule)
	for len(tags) > 0 {
		part := tags[:min(stretch, len(tags))]
		if err := m.read(offset, buf[:len(part)*granule]); err != nil {
			return list, fmt.Errorf("reading %s memory beside the engine: %w", m.name, err)
		}
		for k, tag := range part {
			content(want, tag)
			if got := buf[k*granule:][:granule]; !bytes.Equal(got, want) {
				list = append(list, difference(offset+uint64(k)*granule, got, want))
			}
		}
		offset, tags = offset+uint64(len(part))*granule, tags[len(part):]
	}
	return list, nil
}

// checkSpan compares part of a window.
func (m *memory) checkSpan(s span) error {
	list, err := m.compareTags(s.from, m.tags(s.from, s.to-s.from))
	if err != nil || len(list) == 0 {
		return err
	}
	return fmt.Errorf("%d of %d pieces of %s memory from byte %d on are wrong, the first at byte %d",
		len(list), (s.to-s.from)/granule, m.name, s.from, list[0].offset)
}

func difference(offset uint64, got, want []byte) wrong {
	var d wrong
	if !bytes.Equal(got[:8], want[:8]) {
		d.first = binary.LittleEndian.Uint64(got)
	}
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		if d.bytes == 0 {
			d.offset = offset + uint64(i)
		}
		d.bytes++
	}
	return d
}
