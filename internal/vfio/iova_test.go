package vfio

import (
	"encoding/binary"
	"testing"
)

func TestIOVASpaceLeavesOutWhatIsReserved(t *testing.T) {
	for _, x := range []struct {
		name   string
		ranges []iovaRange
		want   []iovaRange
	}{
		{"page zero", []iovaRange{{0, 0xffff}}, []iovaRange{{0x1000, 0xffff}}},
		{"unsorted, unaligned", []iovaRange{{0x10_0001, 0x10_4fff}, {0x5000, 0x7ffe}}, []iovaRange{{0x5000, 0x6fff}, {0x10_1000, 0x10_4fff}}},
		{"to the very end", []iovaRange{{1 << 63, 1<<64 - 1}}, []iovaRange{{1 << 63, 1<<64 - 1}}},
		{"too small", []iovaRange{{0x100, 0x200}, {0x1001, 0x1fff}}, nil},
		{"none", nil, nil},
	} {
		s := newIOVASpace(x.ranges)
		if len(s.free) != len(x.want) {
			t.Errorf("%s: %#x, want %#x", x.name, s.free, x.want)
			continue
		}
		for i := range s.free {
			if s.free[i] != x.want[i] {
				t.Errorf("%s: %#x, want %#x", x.name, s.free, x.want)
			}
		}
	}
}

func TestIOVASpaceJoinsNeighbours(t *testing.T) {
	s := newIOVASpace([]iovaRange{{0x1000, 0x6fff}})
	var at []uint64
	for range 6 {
		a, err := s.take(0x1000)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a)
	}
	if _, err := s.take(0x1000); err == nil {
		t.Fatal("more room than there is")
	}
	for _, i := range []int{0, 2, 4, 5, 1, 3} {
		s.give(at[i], 0x1000)
	}
	if len(s.free) != 1 || s.free[0] != (iovaRange{0x1000, 0x6fff}) {
		t.Errorf("in the end %#x is free", s.free)
	}
	if a, err := s.take(0x6000); err != nil || a != 0x1000 {
		t.Errorf("all of it: %#x, %v", a, err)
	}
}

// FuzzParseRanges: the chain of capabilities comes from the kernel, but a bug there must not end in a loop or a panic here.
func FuzzParseRanges(f *testing.F) {
	le := binary.NativeEndian
	good := make([]byte, 24+16+32)
	le.PutUint32(good[16:], 24)
	le.PutUint16(good[24:], CapIOVARange)
	le.PutUint32(good[24+8:], 2)
	le.PutUint64(good[24+24:], 0xfff)
	f.Add(good)
	loop := make([]byte, 64)
	le.PutUint32(loop[16:], 24)
	le.PutUint32(loop[28:], 24)
	f.Add(loop)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := parseRanges(b); len(r)*rangeBytes > len(b) {
			t.Errorf("%d ranges out of %d bytes", len(r), len(b))
		}
	})
}
