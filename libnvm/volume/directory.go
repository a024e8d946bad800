package volume

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	dirMagic = "TRITIERD"
	// MaxArrays bounds the arrays of a volume.
	MaxArrays = (dirSlot - 256) / 128
	// MaxNameLen bounds the length of an array's name in bytes.
	MaxNameLen = 64
)

// dirHeader starts a directory slot. The slot's last eight bytes are its
// checksum, seeded with the volume's UUID.
type dirHeader struct {
	Magic      [8]byte
	Version    uint32
	Open       uint32 // 1: in use, or not closed properly
	UUID       [16]byte
	Generation uint64 // the slot with the higher one counts
	Epoch      uint64 // of the intent log
	NextID     uint64 // of the next array
	Arrays     uint32
	_          uint32
	Owner      [128]byte // who opened it last
}

// dirEntry is an array in a directory slot.
type dirEntry struct {
	Name  [MaxNameLen]byte
	ID    uint64 // never used again
	First uint64 // first volume page
	Pages uint64
	_     [40]byte
}

// directory is what changes: the arrays, and the state of the volume.
type directory struct {
	open       bool
	generation uint64
	epoch      uint64
	nextID     uint64
	owner      string
	arrays     []ArrayInfo // by first page
}

// ArrayInfo describes an array.
type ArrayInfo struct {
	Name  string
	ID    uint64 // unique in the volume, never used again
	First uint64 // first volume page
	Pages uint64
}

// seeded is the checksum of metadata: a structure that another volume left
// behind does not pass.
func seeded(uuid [16]byte, p []byte) uint64 {
	d := xxhash.NewWithSeed(binary.LittleEndian.Uint64(uuid[:8]) ^ binary.LittleEndian.Uint64(uuid[8:]))
	_, _ = d.Write(p) // a hash never fails
	return d.Sum64()
}

func (d *directory) encode(uuid [16]byte, p []byte) error {
	p = p[:dirSlot]
	clear(p)
	h := dirHeader{Version: FormatVersion, UUID: uuid, Generation: d.generation, Epoch: d.epoch, NextID: d.nextID, Arrays: uint32(len(d.arrays))}
	copy(h.Magic[:], dirMagic)
	copy(h.Owner[:], d.owner)
	if d.open {
		h.Open = 1
	}
	n, err := binary.Encode(p, binary.LittleEndian, &h)
	for i := 0; i < len(d.arrays) && err == nil; i++ {
		a := &d.arrays[i]
		e := dirEntry{ID: a.ID, First: a.First, Pages: a.Pages}
		copy(e.Name[:], a.Name)
		var k int
		k, err = binary.Encode(p[n:dirSlot-8], binary.LittleEndian, &e)
		n += k
	}
	if err != nil {
		return fmt.Errorf("volume: encode directory: %w", err)
	}
	binary.LittleEndian.PutUint64(p[dirSlot-8:], seeded(uuid, p[:dirSlot-8]))
	return nil
}

// decodeDirectory reads a slot; nil when it is not valid.
func decodeDirectory(uuid [16]byte, p []byte, pages uint64) *directory {
	p = p[:dirSlot]
	var h dirHeader
	n, err := binary.Decode(p, binary.LittleEndian, &h)
	if err != nil || string(h.Magic[:]) != dirMagic || h.UUID != uuid || h.Version != FormatVersion || h.Arrays > MaxArrays ||
		binary.LittleEndian.Uint64(p[dirSlot-8:]) != seeded(uuid, p[:dirSlot-8]) {
		return nil
	}
	d := &directory{open: h.Open != 0, generation: h.Generation, epoch: h.Epoch, nextID: h.NextID, owner: text(h.Owner[:])}
	end := uint64(0)
	ids, names := map[uint64]bool{}, map[string]bool{}
	for range h.Arrays {
		var e dirEntry
		k, err := binary.Decode(p[n:], binary.LittleEndian, &e)
		if err != nil || e.First < end || e.Pages == 0 || e.First >= pages || e.Pages > pages-e.First {
			return nil // overlapping, unsorted or outside: not written by this program
		}
		n += k
		end = e.First + e.Pages
		a := ArrayInfo{text(e.Name[:]), e.ID, e.First, e.Pages}
		if a.Name == "" || names[a.Name] || ids[a.ID] || a.ID >= d.nextID {
			return nil
		}
		ids[a.ID], names[a.Name] = true, true
		d.arrays = append(d.arrays, a)
	}
	return d
}

// closing says whether a slot that is not valid may have said, before it was damaged, that the
// volume was closed after the directory d: what can be read of it does not say otherwise.
func (d *directory) closing(uuid [16]byte, p []byte) bool {
	var h dirHeader
	if _, err := binary.Decode(p, binary.LittleEndian, &h); err != nil || string(h.Magic[:]) != dirMagic || h.UUID != uuid {
		return true
	}
	return h.Open == 0 && h.Generation > d.generation
}

func text(p []byte) string { return string(bytes.TrimRight(p, "\x00")) }

// newer picks the valid directory with the higher generation.
func newer(a, b *directory) *directory {
	if a == nil || b != nil && b.generation > a.generation {
		return b
	}
	return a
}

func (d *directory) find(name string) int {
	return slices.IndexFunc(d.arrays, func(a ArrayInfo) bool { return a.Name == name })
}

// place finds the first gap of n pages.
func (d *directory) place(n, total uint64) (uint64, error) {
	var at, largest, free uint64
	found, first := false, uint64(0)
	for i := range len(d.arrays) + 1 {
		end := total
		if i < len(d.arrays) {
			end = d.arrays[i].First
		}
		gap := end - at
		free += gap
		largest = max(largest, gap)
		if gap >= n && !found {
			found, first = true, at
		}
		if i < len(d.arrays) {
			at = d.arrays[i].First + d.arrays[i].Pages
		}
	}
	if !found {
		return 0, &NoSpaceError{Want: n, Largest: largest, Free: free}
	}
	return first, nil
}

// with returns a copy that has one more array.
func (d *directory) with(a ArrayInfo) *directory {
	c := *d
	c.arrays = append(slices.Clone(d.arrays), a)
	slices.SortFunc(c.arrays, func(x, y ArrayInfo) int { return cmp.Compare(x.First, y.First) })
	c.nextID = max(c.nextID, a.ID+1)
	return &c
}

// without returns a copy that lacks array i.
func (d *directory) without(i int) *directory {
	c := *d
	c.arrays = slices.Delete(slices.Clone(d.arrays), i, i+1)
	return &c
}
