package soft_test

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestMapLarge: memory of several GiB that the host brings is reached up to its
// last page, by one pair of PRPs as by a list, and not one byte further.
func TestMapLarge(t *testing.T) {
	const size = 6 << 30
	big, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the controller's end
		if err := unix.Munmap(big); err != nil {
			t.Error(err)
		}
	})
	s := start(t, 1<<20, soft.Config{})
	m, err := s.Map(big)
	if err != nil {
		t.Fatal(err)
	}
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{4096, 8192, 65536} {
		for _, at := range []int{0, 1 << 20, 4<<30 - n/2, 5<<30 + 512, size - n} {
			want := bytes.Repeat([]byte{byte(i + 1), byte(at >> 30), byte(at)}, n)[:n]
			copy(big[at:], want)
			req := libnvm.Request{Op: libnvm.OpWrite, NS: ns, LBA: 3, Blocks: uint64(n / 4096), Mem: m, Offset: at}
			if err := q.Do(&req); err != nil {
				t.Fatalf("write of %d bytes at %#x: %v", n, at, err)
			}
			clear(big[at : at+n])
			req.Op = libnvm.OpRead
			if err := q.Do(&req); err != nil || !bytes.Equal(big[at:at+n], want) {
				t.Fatalf("read of %d bytes at %#x: %v, or not what was written", n, at, err)
			}
		}
	}
	last, _ := m.IOVA(size - 4096)
	for _, x := range []struct{ prp1, prp2 uint64 }{{last, last + 4096}, {last + 512, last + 4096}} {
		read := libnvm.Command{Opcode: libnvm.OpRead, NSID: 1, CDW12: 1, PRP1: x.prp1, PRP2: x.prp2}
		if got := raw(t, q, read); got != libnvm.StatusDataTransferError {
			t.Errorf("a read beyond the end: %s", got)
		}
	}
}
