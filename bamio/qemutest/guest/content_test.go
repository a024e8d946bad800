package guest

import (
	"encoding/binary"
	"testing"

	"github.com/tritier/tritier/libnvm"
)

// word is a piece of what a version of a block contains, as in the program's shared.hpp.
func word(lba uint64, version uint32, i int) uint64 {
	switch i {
	case 0:
		return lba
	case 1:
		return uint64(version)
	}
	v := lba<<32 ^ uint64(version)<<12 ^ uint64(i)
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// pass calls f with pieces of the first blocks of namespace 0 in a memory of the test's own and moves them by libnvm: f comes before a
// write, or after a read.
func (r *rig) pass(t *testing.T, op libnvm.Opcode, blocks int, f func(b []byte, lba uint64)) {
	t.Helper()
	q, err := r.c.CreateQueuePair(libnvm.QueueConfig{Depth: 16})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.tr.Alloc(256 << 10)
	if err != nil {
		t.Fatal(err)
	}
	size := r.ns[0].BlockSize
	for lba := 0; lba < blocks; {
		n := min(blocks-lba, m.Len()/size)
		each := func() {
			for i := range n {
				f(m.Bytes()[i*size:(i+1)*size], uint64(lba+i))
			}
		}
		if op == libnvm.OpWrite {
			each()
		}
		if err := q.Do(&libnvm.Request{Op: op, NS: r.ns[0], LBA: uint64(lba), Blocks: uint64(n), Mem: m}); err != nil {
			t.Fatal(err)
		}
		if op == libnvm.OpRead {
			each()
		}
		lba += n
	}
	check(t, q.Close())
	check(t, m.Free())
}

// prepare writes version 1 of the first blocks by libnvm.
func (r *rig) prepare(t *testing.T, blocks int) {
	t.Helper()
	versions := records[uint32](r.arena, r.versions, maxVersions)
	r.pass(t, libnvm.OpWrite, blocks, func(b []byte, lba uint64) {
		versions[lba] = 1
		for i := range len(b) / 8 {
			binary.LittleEndian.PutUint64(b[8*i:], word(lba, 1, i))
		}
	})
}

// verify reads the first blocks by libnvm and compares them with the versions that the program left there. It says how many it has written.
func (r *rig) verify(t *testing.T, blocks int) (written int) {
	t.Helper()
	versions := records[uint32](r.arena, r.versions, maxVersions)
	bad := 0
	r.pass(t, libnvm.OpRead, blocks, func(b []byte, lba uint64) {
		if versions[lba] > 1 {
			written++
		}
		for i := range len(b) / 8 {
			if got := binary.LittleEndian.Uint64(b[8*i:]); got != word(lba, versions[lba], i) {
				if bad++; bad <= 5 {
					t.Errorf("block %d is not version %d: word %d is %#x", lba, versions[lba], i, got)
				}
				return
			}
		}
	})
	return written
}
