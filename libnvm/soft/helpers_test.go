package soft_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/internal/mmio"
	"github.com/tritier/tritier/libnvm/soft"
)

func libnvmStore(p *uint32, v uint32) { mmio.Store32(p, v) }

func libnvmLoad(p *uint32) uint32 { return mmio.Load32(p) }

func contains(s, word string) bool { return strings.Contains(s, word) }

// FuzzCommands: no entry that a host can write stops the controller.
func FuzzCommands(f *testing.F) {
	f.Add(true, uint8(6), uint8(0), uint32(1), uint64(1<<32), uint64(1<<32), uint32(1), uint32(0), uint32(0))
	f.Add(false, uint8(2), uint8(0), uint32(1), uint64(1<<32+1<<20), uint64(3), uint32(0), uint32(0), uint32(0xffff))
	f.Add(false, uint8(9), uint8(0), uint32(1), uint64(1<<32), uint64(0), uint32(255), uint32(4), uint32(0))
	f.Fuzz(func(t *testing.T, admin bool, op, flags uint8, nsid uint32, prp1, prp2 uint64, d10, d11, d12 uint32) {
		if admin && (libnvm.Opcode(op) == libnvm.AdminAsyncEvent) {
			return // stays outstanding by design
		}
		// PRPs may name no memory but a buffer of the test's own.
		s := start(t, 1<<20, soft.Config{MemoryLimit: 16 << 20})
		c := bringUp(t, s, libnvm.Config{})
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		base, err := m.IOVA(0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := libnvm.Command{Opcode: libnvm.Opcode(op), Flags: flags, NSID: nsid, PRP1: base + prp1%(1<<20), PRP2: base + prp2%(1<<20), CDW10: d10, CDW11: d11, CDW12: d12}
		if admin {
			_, err := c.Admin(&cmd, nil)
			var se *libnvm.StatusError
			if err != nil && !errors.As(err, &se) {
				t.Errorf("admin command: %v", err)
			}
			return // it may have deleted the queue pair
		}
		raw(t, q, cmd)
		if got := raw(t, q, libnvm.Command{Opcode: libnvm.OpFlush, NSID: 1}); got != libnvm.StatusSuccess {
			t.Errorf("a flush afterwards: %s", got)
		}
	})
}
