package libnvm

import (
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// FuzzIdentify: hostile identify data gives an error or sane values, never a panic.
func FuzzIdentify(f *testing.F) {
	sane := make([]byte, 4096)
	le.PutUint64(sane, 1000)
	le.PutUint32(sane[128:], 12<<16)
	sane[512], sane[513], sane[77] = 0x66, 0x44, 5
	f.Add(sane, 1<<20)
	huge := make([]byte, 4096)
	for i := range huge {
		huge[i] = 0xff
	}
	f.Add(huge, 4096)
	f.Add([]byte{1, 2, 3}, 8192)
	f.Fuzz(func(t *testing.T, b []byte, transfer int) {
		if len(b) > 8192 || transfer < PageSize || transfer > 1<<30 {
			return
		}
		if i, err := parseController(b); err == nil {
			if i.maxTransfer < 0 || i.maxTransfer > 1<<30 || i.maxTransfer%PageSize != 0 {
				t.Errorf("transfer size %d", i.maxTransfer)
			}
			for _, r := range i.Serial + i.Model + i.Firmware + i.NQN {
				if r < ' ' || r > '~' {
					t.Errorf("unprintable text in %+v", i)
				}
			}
		}
		if n, err := parseNamespace(1, b, transfer); err == nil {
			if n.BlockSize < 512 || n.maxData == 0 || n.Blocks == 0 || n.Bytes()/uint64(n.BlockSize) != n.Blocks || int(n.maxData)<<n.shift > transfer {
				t.Errorf("%+v", *n)
			}
		}
	})
}

// FuzzCompletions: any content of the completion ring, changed between polls,
// completes each request at most once and leaves the tables consistent.
func FuzzCompletions(f *testing.F) {
	f.Add(uint8(2), []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0})
	f.Add(uint8(5), []byte{1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, d uint8, data []byte) {
		depth := int(d%30) + 2
		h := newHost(t, depth)
		ring := unsafe.Slice((*byte)(h.q.cq), depth*cqeSize)
		out := make([]Completion, 4)
		seen := map[Ticket]bool{}
		accepted := 0
		for i := 0; i < 64 && len(data) > 0; i++ {
			if _, err := h.read(uint64(i)); err == nil {
				accepted++
			}
			n := min(len(data), cqeSize)
			copy(ring[i%depth*cqeSize:], data[:n])
			data = data[n:]
			for _, c := range out[:h.q.Poll(out)] {
				if seen[c.Ticket] {
					t.Fatalf("ticket %d completed twice", c.Ticket)
				}
				seen[c.Ticket] = true
			}
			consistent(t, h.q)
		}
		h.q.endAll(ErrReset)
		for h.q.done.n > 0 {
			for _, c := range out[:h.q.Poll(out)] {
				if seen[c.Ticket] {
					t.Fatalf("ticket %d completed twice", c.Ticket)
				}
				seen[c.Ticket] = true
			}
		}
		if len(seen) != accepted {
			t.Fatalf("%d requests accepted, %d completed", accepted, len(seen))
		}
	})
}

// consistent checks the invariants of the owner table.
func consistent(t *testing.T, q *QueuePair) {
	t.Helper()
	var n [4]int
	for i := range q.slots {
		n[q.slots[i].state]++
	}
	if n[slotFree] != len(q.freeSlots) || n[slotOutstanding] != int(q.outstanding) || n[slotQuarantined]+n[slotLate] != int(q.quarantined) {
		t.Fatalf("states %v, %d free, %s", n, len(q.freeSlots), q.position())
	}
	if q.tail.count-q.sqHead > uint64(q.depth-1) || q.sqHead > q.sqRung || q.cqRung > q.head.count {
		t.Fatalf("positions: %+v %+v, SQ head %d, rung %d", q.tail, q.head, q.sqHead, q.sqRung)
	}
}

// FuzzRegisters: bring-up over registers that hold anything ends with an error
// within its deadlines.
func FuzzRegisters(f *testing.F) {
	f.Add(uint64(0), uint32(0), uint32(0), uint64(0))
	f.Add(^uint64(0), ^uint32(0), ^uint32(0), ^uint64(0))
	f.Add(uint64(0xff<<24|1023|spec.CapCSSNVM), uint32(1), uint32(1), uint64(1))
	f.Add(uint64(15<<32|0xffff|spec.CapCSSNVM|spec.CapCMBS), uint32(3), uint32(0), uint64(0xfffff001<<32))
	f.Fuzz(func(t *testing.T, caps uint64, csts, cc uint32, cmb uint64) {
		fake := newFake(t)
		r := fake.regs
		r.Write64(spec.RegCAP, caps)
		r.Write32(spec.RegCSTS, csts)
		r.Write32(spec.RegCC, cc)
		r.Write64(spec.RegCMBLOC, cmb)
		begun := time.Now()
		c, err := Open(fake, Config{ReadyTimeout: 2 * time.Millisecond, AdminTimeout: 2 * time.Millisecond})
		if err == nil {
			t.Fatalf("a controller that does nothing was brought up: %s", c.State())
		}
		if d := time.Since(begun); d > 30*time.Second {
			t.Fatalf("it took %v", d)
		}
	})
}
