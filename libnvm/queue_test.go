package libnvm

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// TestLayouts checks the sizes and offsets that the specification fixes.
func TestLayouts(t *testing.T) {
	var c Command
	var e cqe
	for name, x := range map[string]struct{ got, want uintptr }{
		"SQE size": {unsafe.Sizeof(c), 64}, "SQE CID": {unsafe.Offsetof(c.CID), 2}, "SQE NSID": {unsafe.Offsetof(c.NSID), 4},
		"SQE MPTR": {unsafe.Offsetof(c.MPTR), 16}, "SQE PRP1": {unsafe.Offsetof(c.PRP1), 24}, "SQE PRP2": {unsafe.Offsetof(c.PRP2), 32},
		"SQE CDW10": {unsafe.Offsetof(c.CDW10), 40}, "SQE CDW12": {unsafe.Offsetof(c.CDW12), 48}, "SQE CDW15": {unsafe.Offsetof(c.CDW15), 60},
		"CQE size": {unsafe.Sizeof(e), 16}, "CQE SQHD": {unsafe.Offsetof(e.sqhd), 8}, "CQE DW3": {unsafe.Offsetof(e.dw3), 12},
	} {
		if x.got != x.want {
			t.Errorf("%s is %d, want %d", name, x.got, x.want)
		}
	}
}

// TestEntryBeforeDoorbell (pitfalls 1 and 2): a controller that fetches the
// moment the doorbell moves sees whole entries, and doorbell values that only
// move forward over what it has let go of. It poisons what it has fetched.
func TestEntryBeforeDoorbell(t *testing.T) {
	h := newHost(t, 5)
	const n = 20000
	var wg sync.WaitGroup
	fail := make(chan string, 1)
	wg.Go(func() { serveChecksums(h, n, fail) })
	out := make([]Completion, 4)
	mem := h.f.memory[0]
	for sent, got, idle := 0, 0, 0; got < n; {
		for k := range 3 { // one to three entries for a doorbell
			if sent == n {
				break
			}
			x := uint32(sent)
			c := Command{Opcode: OpRead, NSID: 1, CDW10: x, CDW15: x * 2654435761}
			_, err := h.q.SubmitCommand(&c, mem, uint64(k), time.Minute)
			if errors.Is(err, ErrQueueFull) {
				break
			}
			h.must(err)
			sent++
		}
		k := h.q.Poll(out)
		got += k
		if idle++; k > 0 {
			idle = 0
		}
		if idle > 100 {
			runtime.Gosched()
		}
		select {
		case s := <-fail:
			t.Fatal(s)
		default:
		}
	}
	wg.Wait()
}

// serveChecksums is the controller of TestEntryBeforeDoorbell.
func serveChecksums(h *host, n int, fail chan<- string) {
	d := h.q.depth
	head := uint32(0)
	end := time.Now().Add(time.Minute)
	for done := 0; done < n; {
		tail := mmio.Load32(h.q.sqDB.p)
		if tail == head {
			runtime.Gosched()
			if time.Now().After(end) {
				fail <- "no doorbell for a minute"
				return
			}
			continue
		}
		if tail >= d {
			fail <- "a doorbell value outside the queue"
			return
		}
		for head != tail {
			e := (*Command)(unsafe.Add(h.q.sq, uintptr(head)*sqeSize))
			c := *e
			*e = Command{CDW10: 0xdead, CDW15: 0xbeef}
			if c.CDW10 != uint32(done) || c.CDW15 != c.CDW10*2654435761 {
				fail <- "an entry was fetched before it was written, or twice"
				return
			}
			head = (head + 1) % d
			h.post(c.CID, uint64(head), 0)
			done++
		}
	}
}

// TestStaleRing (pitfall 3): memory that held another queue's completions
// brings none.
func TestStaleRing(t *testing.T) {
	for _, depth := range []int{2, 3, 16} {
		h := newHost(t, depth)
		ring := unsafe.Slice((*byte)(h.q.cq), depth*cqeSize)
		for i := range ring {
			ring[i] = 0xff
		}
		h.must(h.q.attach())
		_, err := h.read(0)
		h.must(err)
		h.poll(0)
		c := h.fetch()
		h.post(c.CID, h.fetched, 0)
		h.poll(1)
	}
}

// TestPhase (pitfall 3): many laps of shallow queues. An entry that is written
// dword by dword is not taken before its phase tag turns.
func TestPhase(t *testing.T) {
	for _, depth := range []int{2, 3, 4, 7} {
		for _, lap := range []uint64{0, 1<<32/uint64(depth) - 3, 1<<33/uint64(depth) + 1} {
			h := newHost(t, depth)
			h.seed(lap)
			for i := range uint64(6 * depth) {
				ticket, err := h.read(i)
				h.must(err)
				c := h.fetch()
				p := (*cqe)(unsafe.Add(h.q.cq, h.posted%uint64(depth)*cqeSize))
				p.dw0 = uint32(i) ^ 0xabcd
				h.poll(0)
				p.sqhd = uint16(h.fetched % uint64(depth))
				h.poll(0)
				phase := uint32(h.posted/uint64(depth))&1 ^ 1
				mmio.Store32(&p.dw3, uint32(c.CID)|phase<<16)
				h.posted++
				got := h.poll(1)[0]
				if got.Ticket != ticket || got.Err != nil || got.DW0 != uint32(i)^0xabcd {
					t.Fatalf("depth %d, lap %d, request %d: %+v, want ticket %d", depth, lap, i, got, ticket)
				}
				h.poll(0)
			}
		}
	}
}

// TestOwnerTable (pitfall 5): completions out of order, twice, with ids that
// were never given out, and after the time-out.
func TestOwnerTable(t *testing.T) {
	h := newHost(t, 8)
	var cids []uint16
	for i := range uint64(5) {
		_, err := h.read(i)
		h.must(err)
		cids = append(cids, h.fetch().CID)
	}
	for i, k := range []int{3, 0, 4} { // out of order
		h.post(cids[k], h.fetched, 0)
		if got := h.poll(1)[0]; got.Tag != uint64(k) {
			t.Fatalf("completion %d is for request %d, want %d", i, got.Tag, k)
		}
	}
	h.post(cids[3], h.fetched, 0) // twice, the id free
	h.poll(0)
	_, err := h.read(9) // takes an id that was used before
	h.must(err)
	again := h.fetch().CID
	for _, old := range []uint16{cids[3], cids[0], cids[4]} { // twice, the index in use again
		if old == again {
			t.Fatal("the new command has the id of an earlier one")
		}
		h.post(old, h.fetched, 0)
		h.poll(0)
	}
	h.post(0xfff7, h.fetched, 0) // never given out
	h.poll(0)
	if st := h.q.Stats(); st.Duplicate+st.UnknownCID != 5 || h.q.Outstanding() != 3 {
		t.Fatalf("%+v, %d outstanding", st, h.q.Outstanding())
	}
	h.post(again, h.fetched, 0)
	if got := h.poll(1)[0]; got.Tag != 9 {
		t.Fatalf("got %+v", got)
	}
}

// TestQuarantine (pitfall 5): after a time-out the id is not given out again
// and the memory stays held, whatever comes later, until the reset.
func TestQuarantine(t *testing.T) {
	h := newHost(t, 4)
	ticket, err := h.read(1)
	h.must(err)
	lost := h.fetch().CID
	var te *TimeoutError
	if _, err := h.q.Wait(ticket, shortly); !errors.As(err, &te) {
		t.Fatalf("got %v", err)
	}
	m := h.f.memory[0]
	if m.Held() != 1 || !errors.Is(m.Free(), ErrMemoryHeld) {
		t.Fatal("the memory is not in quarantine")
	}
	for i := range uint64(30) {
		_, err := h.read(i)
		h.must(err)
		c := h.fetch()
		if c.CID&h.q.idMask() == lost&h.q.idMask() {
			t.Fatal("the id of a timed-out command was given out again")
		}
		if i == 20 {
			h.post(lost, h.fetched, 0) // very late
		}
		if i == 25 {
			h.post(lost, h.fetched, 0) // and once more
		}
		h.post(c.CID, h.fetched, 0)
		if got := h.poll(1)[0]; got.Tag != i {
			t.Fatalf("got %+v for request %d", got, i)
		}
	}
	if st := h.q.Stats(); st.Late != 1 || st.Duplicate != 1 || m.Held() != 1 {
		t.Fatalf("%+v, %d held", st, m.Held())
	}
	var s strings.Builder
	h.must(h.q.Dump(&s))
	if !strings.Contains(s.String(), "quarantined, completed late") {
		t.Errorf("the dump does not show the quarantine:\n%s", s.String())
	}
	h.q.release()
	h.must(h.q.attach())
	if m.Held() != 0 || len(h.q.freeSlots) != 3 {
		t.Fatal("the quarantine did not end with the reset")
	}
}

// TestStalledHead (pitfall 6): completions free command ids; only SQHD frees
// entries. Tickets and positions pass 2^32.
func TestStalledHead(t *testing.T) {
	for _, depth := range []int{2, 3, 5} {
		h := newHost(t, depth)
		h.seed(1<<32/uint64(depth) - 1)
		var cids []uint16
		for i := range depth - 1 {
			_, err := h.read(uint64(i))
			h.must(err)
			cids = append(cids, h.fetch().CID)
		}
		stale := h.fetched - uint64(depth-1)
		if _, err := h.read(0); !errors.Is(err, ErrQueueFull) {
			t.Fatalf("depth %d took %d requests: %v", depth, depth, err)
		}
		for _, c := range cids { // all complete, and SQHD stands still
			h.post(c, stale, 0)
		}
		h.poll(depth - 1)
		if _, err := h.read(0); !errors.Is(err, ErrHeadStalled) {
			t.Fatalf("depth %d: an entry was reused that the controller has not fetched: %v", depth, err)
		}
		if h.q.tail.count-h.q.sqHead != uint64(depth-1) {
			t.Fatal("the head moved")
		}
		// A late duplicate says nothing about the head. A valid one frees entries.
		h.q.moveHead(uint16(h.fetched % uint64(depth)))
		for i := range 3 * depth {
			ticket, err := h.read(uint64(i))
			h.must(err)
			if uint64(ticket) != h.q.tail.count {
				t.Fatalf("ticket %d for entry %d", ticket, h.q.tail.count)
			}
			h.post(h.fetch().CID, h.fetched, 0)
			h.poll(1)
		}
	}
}

// TestBadHead: an SQ head that cannot be is not believed.
func TestBadHead(t *testing.T) {
	h := newHost(t, 8)
	for _, bad := range []uint16{8, 9, 0xffff, 3, 7} { // outside the queue, and ahead of the tail of 2
		for range 2 {
			_, err := h.read(0)
			h.must(err)
		}
		a, b := h.fetch(), h.fetch()
		e := h.q.Stats().BadSQHD
		h.post(a.CID, h.fetched-2, 0)
		h.q.moveHead(bad)
		if bad != 3 && bad != 7 && h.q.Stats().BadSQHD != e+1 {
			t.Errorf("SQHD %d was taken", bad)
		}
		h.post(b.CID, h.fetched, 0)
		h.poll(2)
	}
}

// TestSplit: a request above the transfer size completes once, with the first
// error, on queues too shallow for all its parts.
func TestSplit(t *testing.T) {
	for _, depth := range []int{2, 3, 8, 32} {
		for _, failAt := range []int{-1, 0, 2, 6} {
			h := newHost(t, depth)
			m, err := h.f.Alloc(7 * 64 << 10)
			h.must(err)
			ticket, err := h.q.Submit(&Request{Op: OpWrite, NS: h.ns, LBA: 1000, Blocks: 7 * 128, Mem: m, Tag: 5})
			h.must(err)
			done := 0
			var got []Completion
			out := make([]Completion, 4)
			for len(got) == 0 && done < 20 {
				c := h.fetch()
				if lba := uint64(c.CDW10); lba != 1000+uint64(done)*128 || c.CDW12 != 127 {
					t.Fatalf("part %d is LBA %d, %d blocks", done, lba, c.CDW12+1)
				}
				st := Status(0)
				if done == failAt {
					st = StatusWriteFault
				} else if failAt >= 0 && done > failAt {
					st = StatusInternalError // a later error, which must not be reported
				}
				h.post(c.CID, h.fetched, st)
				done++
				got = append(got, out[:h.q.Poll(out)]...)
			}
			if len(got) != 1 || got[0].Ticket != ticket || got[0].Tag != 5 {
				t.Fatalf("depth %d: %+v", depth, got)
			}
			var se *StatusError
			switch {
			case failAt < 0 && (got[0].Err != nil || done != 7):
				t.Fatalf("depth %d: %d parts, %v", depth, done, got[0].Err)
			case failAt >= 0 && (!errors.As(got[0].Err, &se) || se.Status != StatusWriteFault || se.LBA != 1000+uint64(failAt)*128):
				t.Fatalf("depth %d, failure at part %d: %v", depth, failAt, got[0].Err)
			}
			if h.q.Outstanding() != 0 || h.q.unsent != noRequest || len(h.q.freeRequests) != depth-1 {
				t.Fatalf("depth %d: the queue is not empty: %s", depth, h.q.position())
			}
		}
	}
}

// TestZeroedEntry (pitfall 9): a slot keeps nothing of its last command.
func TestZeroedEntry(t *testing.T) {
	h := newHost(t, 2)
	full := Command{Opcode: 0x7e, Flags: 0xff, NSID: 1, CDW2: 9, CDW3: 9, MPTR: 9, PRP1: 9, PRP2: 9, CDW10: 9, CDW11: 9, CDW12: 9, CDW13: 9, CDW14: 9, CDW15: 9}
	for range 2 {
		_, err := h.q.SubmitCommand(&full, nil, 0, 0)
		h.must(err)
		h.post(h.fetch().CID, h.fetched, 0)
		h.poll(1)
	}
	for range 2 {
		_, err := h.q.Submit(&Request{Op: OpFlush, NS: h.ns})
		h.must(err)
		c := h.fetch()
		if want := (Command{Opcode: OpFlush, CID: c.CID, NSID: 1}); c != want {
			t.Fatalf("the entry of a flush is %+v", c)
		}
		h.post(c.CID, h.fetched, 0)
		h.poll(1)
	}
}

// TestOneDoorbell: a batch rings once; nothing rings when nothing was sent.
func TestOneDoorbell(t *testing.T) {
	h := newHost(t, 64)
	rs := make([]Request, 40)
	for i := range rs {
		rs[i] = Request{Op: OpFlush, NS: h.ns, Tag: uint64(i)}
	}
	first, n, err := h.q.SubmitBatch(rs)
	if first != 1 || n != 40 || err != nil || h.q.Stats().SQDoorbells != 1 || h.sqDoorbell() != 40 {
		t.Fatalf("ticket %d, %d taken, %v, %d doorbells, value %d", first, n, err, h.q.Stats().SQDoorbells, h.sqDoorbell())
	}
	_, n, err = h.q.SubmitBatch(rs)
	if n != 23 || !errors.Is(err, ErrQueueFull) || h.q.Stats().SQDoorbells != 2 {
		t.Fatalf("%d taken, %v", n, err)
	}
	_, n, err = h.q.SubmitBatch(rs)
	if n != 0 || !errors.Is(err, ErrQueueFull) || h.q.Stats().SQDoorbells != 2 {
		t.Fatalf("%d taken, %v", n, err)
	}
}

// TestFIFO: removal from the middle keeps the order of the rest.
func TestFIFO(t *testing.T) {
	f := fifo{buf: make([]int32, 5), head: 3}
	for i := range int32(5) {
		f.push(i)
	}
	f.remove(2)
	f.remove(7)
	var got []int32
	for f.n > 0 {
		got = append(got, f.pop())
	}
	if !slices.Equal(got, []int32{0, 1, 3, 4}) {
		t.Fatal(got)
	}
}
