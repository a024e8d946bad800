package nvmetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/tritier/tritier/libnvm"
)

// testStatuses sends commands that are wrong and expects the right status.
func testStatuses(e *env) {
	q := e.queue(8)
	m := e.buffer(16 * libnvm.PageSize)
	a, err := m.IOVA(0)
	e.must(err)
	ok := libnvm.Command{Opcode: libnvm.OpRead, NSID: e.ns.ID, PRP1: a}
	twoPages := max(2*libnvm.PageSize/e.ns.BlockSize, 1) // in blocks, or more for large ones
	cases := []struct {
		name   string
		change func(*libnvm.Command)
		want   libnvm.Status
	}{
		{"first LBA past the end", func(c *libnvm.Command) { c.CDW10, c.CDW11 = uint32(e.ns.Blocks), uint32(e.ns.Blocks>>32) }, libnvm.StatusLBAOutOfRange},
		{"range crosses the end", func(c *libnvm.Command) {
			c.CDW10, c.CDW11, c.CDW12 = uint32(e.ns.Blocks-1), uint32((e.ns.Blocks-1)>>32), 1
		}, libnvm.StatusLBAOutOfRange},
		{"LBA near 2^64", func(c *libnvm.Command) { c.CDW10, c.CDW11, c.CDW12 = 0xffffffff, 0xffffffff, 1 }, libnvm.StatusLBAOutOfRange},
		{"namespace that is not there", func(c *libnvm.Command) { c.NSID = 0xfffffff0 }, libnvm.StatusInvalidNamespace},
		{"opcode that is not there", func(c *libnvm.Command) { c.Opcode = 0x55 }, libnvm.StatusInvalidOpcode},
		{"second PRP with an offset", func(c *libnvm.Command) {
			c.CDW12, c.PRP2 = uint32(twoPages-1), a+libnvm.PageSize+4
		}, e.o.PRPStatus},
	}
	for _, x := range cases {
		c := ok
		x.change(&c)
		t, err := q.SubmitCommand(&c, m, 0, 0)
		e.must(err)
		_, err = q.Wait(t, 0)
		if err := want(err, x.want); err != nil {
			e.Errorf("%s: %v", x.name, err)
		}
	}
	// The driver refuses by itself what it can see.
	var re *libnvm.RequestError
	for name, r := range map[string]libnvm.Request{
		"past the end":   {Op: libnvm.OpRead, NS: e.ns, LBA: e.ns.Blocks, Blocks: 1, Mem: m},
		"wraps":          {Op: libnvm.OpRead, NS: e.ns, LBA: 1, Blocks: 1<<64 - 1, Mem: m},
		"wraps, no data": {Op: libnvm.OpWriteZeroes, NS: e.ns, LBA: 1, Blocks: 1<<64 - 1},
		"no blocks":      {Op: libnvm.OpRead, NS: e.ns, Mem: m},
		"no memory":      {Op: libnvm.OpRead, NS: e.ns, Blocks: 1},
		"odd offset":     {Op: libnvm.OpRead, NS: e.ns, Blocks: 1, Mem: m, Offset: 2},
		"memory small":   {Op: libnvm.OpRead, NS: e.ns, Blocks: 1, Mem: m, Offset: m.Len() - 4},
		"no namespace":   {Op: libnvm.OpRead, Blocks: 1, Mem: m},
		"behind memory":  {Op: libnvm.OpRead, NS: e.ns, Blocks: 1, Mem: m, Offset: m.Len() + 4096},
	} {
		if err := q.Do(&r); !errors.As(err, &re) {
			e.Errorf("%s: %v", name, err)
		}
	}
	e.intact(m, 0, 0)
	if _, err := e.c.Admin(&libnvm.Command{Opcode: 0x7f}, nil); want(err, libnvm.StatusInvalidOpcode) != nil {
		e.Errorf("admin opcode that is not there: %v", err)
	}
}

// testFull fills a queue to the brim: one less than its depth.
func testFull(e *env) {
	for _, depth := range []int{2, 3, 5, 64} {
		if depth > e.c.MaxDepth() {
			e.Logf("depth %d is more than the controller takes", depth)
			continue
		}
		q := e.queue(depth)
		m := e.buffer(depth * e.ns.BlockSize)
		for round := range 3 {
			n := 0
			for {
				_, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: uint64(n), Blocks: 1, Mem: m, Offset: n * e.ns.BlockSize, Tag: uint64(n)})
				if errors.Is(err, libnvm.ErrQueueFull) {
					break
				}
				e.must(err)
				if n++; n > depth {
					break
				}
			}
			if n != depth-1 {
				e.Fatalf("depth %d took %d requests in round %d", depth, n, round)
			}
			seen := map[uint64]bool{}
			for _, c := range e.drain(q, n) {
				e.must(c.Err)
				if seen[c.Tag] {
					e.Fatalf("request %d completed twice", c.Tag)
				}
				seen[c.Tag] = true
			}
		}
		e.must(q.Close())
	}
}

// testWrap goes round shallow queues many times, so that the phase tag turns often.
func testWrap(e *env) {
	for _, depth := range []int{2, 3, 4, 7} {
		q := e.queue(depth)
		for i := range 61 { // an odd number: the last position is not the first
			data := e.pattern(e.ns.BlockSize)
			lba := uint64(i % 11)
			e.write(q, lba, data, 0)
			e.expect(q, lba, data, 0)
		}
		if st := q.Stats(); st.CQEs != 122 || st.Duplicate+st.UnknownCID+st.BadSQHD+st.Late != 0 {
			e.Errorf("depth %d: %+v", depth, st)
		}
		e.must(q.Close())
	}
}

// testDoorbells counts MMIO writes: two for each request at depth 1, and one
// for a whole batch.
func testDoorbells(e *env) {
	q := e.queue(min(128, e.c.MaxDepth()))
	m := e.buffer(32 * e.ns.BlockSize)
	const n = 64
	for range n {
		e.must(q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, Blocks: 1, Mem: m}))
	}
	if st := q.Stats(); st.SQDoorbells != n || st.CQDoorbells != n {
		e.Errorf("depth 1: %d requests, %d and %d doorbell writes", n, st.SQDoorbells, st.CQDoorbells)
	}
	batch := make([]libnvm.Request, min(32, q.Depth()-1))
	for i := range batch {
		batch[i] = libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: uint64(i), Blocks: 1, Mem: m, Offset: i * e.ns.BlockSize, Tag: uint64(i)}
	}
	before := q.Stats()
	for range n {
		first, k, err := q.SubmitBatch(batch)
		e.must(err)
		if k != len(batch) || first == 0 {
			e.Fatalf("batch of %d: took %d from ticket %d", len(batch), k, first)
		}
		for _, c := range e.drain(q, k) {
			e.must(c.Err)
			if c.Ticket != first+libnvm.Ticket(c.Tag) {
				e.Fatalf("ticket %d for request %d of a batch from %d", c.Ticket, c.Tag, first)
			}
		}
	}
	st := q.Stats()
	writes := st.SQDoorbells + st.CQDoorbells - before.SQDoorbells - before.CQDoorbells
	if per := float64(writes) / float64(n*len(batch)); per > 0.2 && len(batch) == 32 {
		e.Errorf("depth 32: %.3f MMIO writes a request", per)
	}
}

func testDepths(e *env) {
	var u *libnvm.UnsupportedError
	for _, depth := range []int{1, -1, e.c.MaxDepth() + 1} {
		if _, err := e.c.CreateQueuePair(libnvm.QueueConfig{Depth: depth}); !errors.As(err, &u) {
			e.Errorf("depth %d: %v", depth, err)
		}
	}
	q := e.queue(0)
	if want := min(1024, e.c.MaxDepth()); q.Depth() != want {
		e.Errorf("default depth %d, want %d", q.Depth(), want)
	}
	e.expectAny(q)
	e.must(q.Close())
	q = e.queue(min(e.c.MaxDepth(), 4096))
	e.expectAny(q)
	l := q.Layout()
	if s := e.o.DoorbellStride; s != 0 && (l.CQDoorbellOffset-l.SQDoorbellOffset != s || l.SQDoorbellOffset != 0x1000+2*int(l.ID)*s) {
		e.Errorf("doorbells at %#x and %#x, want a stride of %d", l.SQDoorbellOffset, l.CQDoorbellOffset, s)
	}
	e.must(q.Close())
}

// expectAny does a write and a read in the second half of the namespace.
func (e *env) expectAny(q *libnvm.QueuePair) {
	e.Helper()
	data := e.pattern(2 * e.ns.BlockSize)
	half := e.ns.Blocks / 2
	lba := half + e.rng.Uint64N(e.ns.Blocks-half-1)
	e.write(q, lba, data, 0)
	e.expect(q, lba, data, 4)
}

// testManyQueues uses several queue pairs at once, each by its own goroutine.
func testManyQueues(e *env) {
	n := min(e.c.QueueLimit(), 8)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		q := e.queue(16)
		m := e.buffer(2 * e.ns.BlockSize)
		wg.Go(func() { errs[i] = hammer(e, q, m, uint64(i)) })
	}
	wg.Wait()
	e.must(errors.Join(errs...))
	if limit := e.c.QueueLimit(); limit < e.o.Queues {
		e.Errorf("%d queue pairs granted, want %d", limit, e.o.Queues)
	}
}

// hammer writes and reads blocks of its own, k, k+8, k+16...
func hammer(e *env, q *libnvm.QueuePair, m *libnvm.Memory, k uint64) error {
	bs := e.ns.BlockSize
	src := patternSource(e.o.Seed<<8 | k)
	for i := range uint64(100) {
		b, got := m.Bytes()[:bs], m.Bytes()[bs:2*bs]
		src.Read(b)
		r := libnvm.Request{Op: libnvm.OpWrite, NS: e.ns, LBA: k + 8*(i%16), Blocks: 1, Mem: m}
		if err := q.Do(&r); err != nil {
			return err
		}
		r.Op, r.Offset = libnvm.OpRead, bs
		if err := q.Do(&r); err != nil {
			return err
		}
		if !bytes.Equal(got, b) {
			return fmt.Errorf("queue %d, round %d: byte %d differs", q.ID(), i, firstDifference(got, b))
		}
	}
	return nil
}

// testDeleteQueues makes and deletes every queue pair that was granted.
func testDeleteQueues(e *env) {
	n := min(e.c.QueueLimit(), 64)
	var u *libnvm.UnsupportedError
	var qs []*libnvm.QueuePair
	for range n {
		qs = append(qs, e.queue(4))
	}
	if n == e.c.QueueLimit() {
		if _, err := e.c.CreateQueuePair(libnvm.QueueConfig{Depth: 4}); !errors.As(err, &u) {
			e.Errorf("one more queue pair than granted: %v", err)
		}
	}
	for _, q := range qs {
		e.expectAny(q)
		e.must(q.Close())
		e.must(q.Close())
		if _, err := q.Submit(&libnvm.Request{Op: libnvm.OpFlush, NS: e.ns}); !errors.Is(err, libnvm.ErrClosed) {
			e.Errorf("submit to a closed queue pair: %v", err)
		}
	}
	last, err := e.c.CreateQueuePair(libnvm.QueueConfig{ID: uint16(n), Depth: 2})
	e.must(err)
	if last.ID() != uint16(n) {
		e.Errorf("asked for id %d, got %d", n, last.ID())
	}
	e.expectAny(last)
}

func testCMB(e *env) {
	if e.c.CMBBytes() == 0 {
		e.Fatal("no controller memory buffer that takes queues")
	}
	q, err := e.c.CreateQueuePair(libnvm.QueueConfig{Depth: 32, CMB: true})
	e.must(err)
	for range 100 {
		e.expectAny(q)
	}
	e.must(q.Reset())
	e.expectAny(q)
	e.must(q.Close())
	if _, err := e.c.CreateQueuePair(libnvm.QueueConfig{Depth: min(e.c.MaxDepth(), e.c.CMBBytes()/64) + 0, CMB: true}); err != nil {
		e.Errorf("the buffer did not become free: %v", err)
	}
}
