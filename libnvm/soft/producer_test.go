package soft_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// raw sends commands as they are and returns their status.
func raw(t *testing.T, q *libnvm.QueuePair, c libnvm.Command) libnvm.Status {
	t.Helper()
	ticket, err := q.SubmitCommand(&c, nil, 0, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Wait(ticket, 0)
	var se *libnvm.StatusError
	switch {
	case err == nil:
		return libnvm.StatusSuccess
	case errors.As(err, &se):
		return se.Status
	}
	t.Fatal(err)
	return 0
}

// TestBounds: no PRP reaches memory that is not registered, by whatever way.
func TestBounds(t *testing.T) {
	s := start(t, 4<<20, soft.Config{MaxTransfer: -1})
	c := bringUp(t, s, libnvm.Config{})
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	alloc := func(n int) (*libnvm.Memory, uint64) {
		m, err := s.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		a, err := m.IOVA(0)
		if err != nil {
			t.Fatal(err)
		}
		return m, a
	}
	_, one := alloc(4096)
	_, three := alloc(3 * 4096)
	freed, gone := alloc(4096)
	list, la := alloc(3 * 4096)
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(list.Bytes()[at:], v) }
	read := func(blocks uint32, prp1, prp2 uint64) libnvm.Command {
		return libnvm.Command{Opcode: libnvm.OpRead, NSID: 1, CDW12: blocks - 1, PRP1: prp1, PRP2: prp2}
	}
	const outside, offset = libnvm.StatusDataTransferError, libnvm.StatusPRPOffsetInvalid
	put(0, three)
	put(8, one+4096)       // the page behind a region
	put(4096-8, la+2*4096) // a pointer to the last page of the list memory
	put(2*4096, three+8)
	for name, x := range map[string]struct {
		c    libnvm.Command
		want libnvm.Status
	}{
		"fits":                {read(1, one, 0), 0},
		"null":                {read(1, 0, 0), outside},
		"top of the space":    {read(1, ^uint64(3), 0), outside},
		"freed":               {read(1, gone, 0), outside},
		"odd":                 {read(1, one+2, 0), offset},
		"second page outside": {read(1, one+4, one+4096), outside},
		"second with offset":  {read(2, three, three+4096+512), offset},
		"list outside":        {read(3, three, 0x1000), outside},
		"list odd":            {read(3, three, la+4), offset},
		"entry outside":       {read(3, three, la), outside},
		"entry with offset":   {read(3, three, la+2*4096), offset},
		"chain":               {read(4, three, la+4096-8), offset},
		"pointer loop":        {read(100, three, la+4096-8), offset},
	} {
		if got := raw(t, q, x.c); got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
	// A ring that starts inside a region and ends outside.
	create := libnvm.Command{Opcode: libnvm.AdminCreateCQ, PRP1: three, CDW10: 1023<<16 | 2, CDW11: 1}
	if _, err := c.Admin(&create, nil); !errors.Is(err, &libnvm.StatusError{Status: libnvm.StatusInvalidField}) {
		t.Errorf("a completion queue that leaves its region: %v", err)
	}
	put(2*4096+4096-8, la) // a chain that ends in itself is bounded by the transfer
	for i := range 511 {
		put(i*8, three)
		put(2*4096+i*8, three)
	}
	if got := raw(t, q, read(1000, three, la)); got != libnvm.StatusSuccess && got != outside {
		t.Errorf("a long chain: %s", got)
	}
	if st := s.Stats(); st.DoorbellRange+st.DoorbellBackward != 0 {
		t.Errorf("%+v", st)
	}
}

// TestDoorbellChecks: values outside the queue and backward moves are counted,
// ignored, and reported as an event.
func TestDoorbellChecks(t *testing.T) {
	s := start(t, 1<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	if err := c.EnableEvents(0xff); err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	// A host that reads no completions: seven fit, the eighth waits in the
	// controller, and six entries stay in the queue.
	l := q.Layout()
	ring := func(tail uint32) {
		for i := range 8 {
			*(*libnvm.Command)(unsafe.Add(l.SQ, i*64)) = libnvm.Command{Opcode: libnvm.OpFlush, NSID: 1}
		}
		l.SQDoorbell.Ring(tail)
	}
	until := func(what string, ok func(soft.Stats) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(s.Stats()); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not noticed: %+v", what, s.Stats())
			}
		}
	}
	before := s.Stats().Commands
	ring(7)
	until("the first lap", func(st soft.Stats) bool { return st.Commands == before+7 })
	ring(6)
	until("the second lap", func(st soft.Stats) bool { return st.Commands == before+8 })
	ring(8)
	until("a value outside", func(st soft.Stats) bool { return st.DoorbellRange == 1 })
	ring(3)
	until("a backward move", func(st soft.Stats) bool { return st.DoorbellBackward == 1 })
	l.CQDoorbell.Ring(7)
	until("the rest", func(st soft.Stats) bool { return st.Commands >= before+15 }) // and the event
	l.CQDoorbell.Ring(2)                                                            // past what was posted
	out := make([]libnvm.Event, 4)
	var n int
	for end := time.Now().Add(30 * time.Second); n == 0 && time.Now().Before(end); {
		if n, err = c.Events(out); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 || out[0].Type != 0 || out[0].Info != 1 {
		t.Errorf("%d events, %v", n, out[:n])
	}
}

// TestSMARTEvent: a critical warning raises one event, until the log is read.
func TestSMARTEvent(t *testing.T) {
	s := start(t, 1<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	if err := c.EnableEvents(0xff); err != nil {
		t.Fatal(err)
	}
	for _, bit := range []uint8{4, 8} {
		s.SetCriticalWarning(bit)
		out := make([]libnvm.Event, 4)
		n := 0
		for end := time.Now().Add(30 * time.Second); n == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			var err error
			if n, err = c.Events(out); err != nil {
				t.Fatal(err)
			}
		}
		if n != 1 || out[0].Type != 1 || out[0].Log != 2 {
			t.Fatalf("%d events, %v", n, out[:n])
		}
		if h, err := c.SMART(); err != nil || h.CriticalWarning != bit {
			t.Fatalf("%+v, %v", h, err)
		}
	}
}

// TestOtherProducer: a program that knows only the memfd and a queue's layout
// submits commands with plain stores.
func TestOtherProducer(t *testing.T) {
	s := start(t, 1<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	f, bar, err := s.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	iova, _ := data.IOVA(0)
	l := q.Layout()
	size := int(iova-1<<32) + 4096
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	if l.CQDoorbellOffset >= bar {
		t.Fatalf("a doorbell at %#x of a BAR of %d bytes", l.CQDoorbellOffset, bar)
	}
	at := func(iova uint64) unsafe.Pointer { return unsafe.Pointer(&mem[iova-1<<32]) }
	for i := range uint32(9) { // more than two laps
		sqe := (*libnvm.Command)(unsafe.Add(at(l.SQIOVA), i%4*64))
		*sqe = libnvm.Command{Opcode: libnvm.OpRead, CID: uint16(100 + i), NSID: 1, PRP1: iova, CDW10: i}
		doorbell := (*uint32)(unsafe.Pointer(&mem[l.SQDoorbellOffset]))
		libnvmStore(doorbell, (i+1)%4)
		cqe := unsafe.Slice((*uint32)(unsafe.Add(at(l.CQIOVA), i%4*16)), 4)
		end := time.Now().Add(30 * time.Second)
		for libnvmLoad(&cqe[3])>>16&1 != (i/4&1)^1 {
			if time.Now().After(end) {
				t.Fatal("no completion")
			}
		}
		if dw3 := libnvmLoad(&cqe[3]); uint16(dw3) != uint16(100+i) || dw3>>17 != 0 || cqe[2]&0xffff != (i+1)%4 {
			t.Fatalf("completion %d: %#x", i, cqe)
		}
		libnvmStore((*uint32)(unsafe.Pointer(&mem[l.CQDoorbellOffset])), (i+1)%4)
	}
}

// TestContextStops: cancelling the context ends the threads without Close.
func TestContextStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	m, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := soft.New(ctx, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: m}}, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	begun := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("it took %v to stop", d)
	}
	if err := s.Close(); err != nil {
		t.Error("a second close: ", err)
	}
}

// TestBadConfig: all violations come together, and backends are closed.
func TestBadConfig(t *testing.T) {
	m, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = soft.New(t.Context(), soft.Config{Threads: -1, MaxDepth: 1, DoorbellStride: 5, MaxTransfer: 5000,
		Namespaces: []soft.NamespaceConfig{{Backend: m, BlockSize: 100}, {}}})
	for _, word := range []string{"Threads", "MaxDepth", "DoorbellStride", "MaxTransfer", "BlockSize", "no backend"} {
		if err == nil || !contains(err.Error(), word) {
			t.Errorf("%q is missing in: %v", word, err)
		}
	}
	if m.Bytes() != nil {
		t.Error("the backend was not closed")
	}
}
