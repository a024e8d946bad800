package soft

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
)

// TestMemoryZero: zeroes reach every byte of their range, in whole huge pages and beside
// them, and none outside it.
func TestMemoryZero(t *testing.T) {
	const size = 9*hugePage + 3*4096
	m, err := NewMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	if p := uintptr(unsafe.Pointer(&m.Bytes()[0])); p%hugePage != 0 {
		t.Errorf("the memory begins at %#x, where no huge page does", p)
	}
	ch, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []OpKind{OpWriteZeroes, OpDiscard} {
		for _, r := range [][2]int64{
			{0, size}, {512, 512}, {hugePage, hugePage}, {hugePage - 512, hugePage + 1024}, {hugePage + 512, 2*hugePage - 1024},
			{3 * hugePage, 5*hugePage + 512}, {size - 512, 512}, {8*hugePage + 512, size - 8*hugePage - 512},
		} {
			data := m.Bytes()
			for i := range data {
				data[i] = 0xa5
			}
			op := &Op{Kind: kind, Offset: r[0], Length: r[1]}
			if !ch.Start(op) || op.Status != libnvm.StatusSuccess {
				t.Fatalf("kind %d, %d bytes at %d: status %v", kind, r[1], r[0], op.Status)
			}
			if n := bytes.Count(data[r[0]:r[0]+r[1]], []byte{0}); int64(n) != r[1] {
				t.Errorf("kind %d: %d of %d bytes at %d are zero", kind, n, r[1], r[0])
			}
			if n := bytes.Count(data, []byte{0xa5}); int64(n) != size-r[1] {
				t.Errorf("kind %d, %d bytes at %d: %d bytes outside it are as before, not %d", kind, r[1], r[0], n, size-r[1])
			}
		}
	}
}

// BenchmarkMemoryZero is a new array's first use of a drive's memory.
func BenchmarkMemoryZero(b *testing.B) {
	const size = 1 << 30
	b.SetBytes(size)
	for b.Loop() {
		m, err := NewMemory(size)
		if err != nil {
			b.Fatal(err)
		}
		ch, err := m.Open()
		if err != nil {
			b.Fatal(err)
		}
		ch.Start(&Op{Kind: OpWriteZeroes, Length: size})
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
