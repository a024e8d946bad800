package bamiofake

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/bamio/layout"
)

// The commands.
const (
	Flush = 0
	Write = 1
	Read  = 2
)

const page = 4096

// Span is blocks of a drive and the place in a payload buffer for them.
type Span struct {
	LBA    uint64
	Blocks uint32
	Buffer uint32
	Offset uint32
}

// Handle names a command that was sent.
type Handle struct{ index, word uint32 }

// Transfer runs one command on a queue and returns its status, as the device's
// read_thread and write_thread do. A flush has no span.
func (d *Device) Transfer(queue int, op uint32, s Span) uint32 {
	h, st := d.Start(queue, op, s)
	if st != layout.OK {
		return st
	}
	return d.Wait(queue, h)
}

// Start sends one command; Wait takes its result. Statuses other than OK mean
// that nothing was sent.
func (d *Device) Start(queue int, op uint32, s Span) (Handle, uint32) {
	p := &d.queues[queue]
	e, st := d.makeEntry(p, op, s)
	if st != layout.OK {
		return Handle{}, st
	}
	w := d.watch(p)
	for {
		if h, ok := d.try(p, e); ok {
			return h, layout.OK
		}
		d.poll(p)
		if why := w.over(); why == layout.Timeout {
			return Handle{}, layout.Busy
		} else if why != layout.OK {
			return Handle{}, why
		}
		runtime.Gosched()
	}
}

// Wait waits for the result of a command that was sent.
func (d *Device) Wait(queue int, h Handle) uint32 {
	p := &d.queues[queue]
	w := d.watch(p)
	for {
		if st, ok := p.result(h); ok {
			return st
		}
		took := d.poll(p)
		if why := w.over(); why != layout.OK {
			if atomic.CompareAndSwapUint32(&p.cids[h.index].Word, h.word, h.word^layout.InFlight^layout.Abandoned) {
				return why
			}
		}
		if took == 0 {
			runtime.Gosched()
		}
	}
}

func (p *port) result(h Handle) (st uint32, ok bool) {
	word := atomic.LoadUint32(&p.cids[h.index].Word)
	if word == h.word {
		return 0, false
	}
	if word&0xffff != h.word^layout.InFlight^layout.Done {
		return layout.NoCompletion, true
	}
	atomic.StoreUint32(&p.cids[h.index].Word, layout.Free)
	return word >> 16, true
}

// makeEntry is make_transfer and write_entry of sqe.cuh, but for the id.
func (d *Device) makeEntry(p *port, op uint32, s Span) (entry, uint32) {
	e := entry{dw0: op, nsid: p.q.NSID}
	if op == Flush {
		return e, layout.OK
	}
	v, y := &d.Drives[p.q.Drive], &d.Engine.Payload
	bytes := uint64(s.Blocks) * uint64(v.BlockSize)
	if s.Blocks == 0 || s.Blocks > v.MaxBlocks || s.LBA >= v.Blocks || uint64(s.Blocks) > v.Blocks-s.LBA ||
		s.Buffer >= y.Count || s.Offset%4 != 0 || uint64(s.Offset) > uint64(y.Bytes) || bytes > uint64(y.Bytes-s.Offset) {
		return e, layout.BadArgument
	}
	start, first := v.IOVA+uint64(s.Buffer)*uint64(y.Bytes), uint64(s.Offset/page)
	pages := (uint64(s.Offset%page) + bytes + page - 1) / page
	e.prp1 = start + uint64(s.Offset)
	switch {
	case pages == 2:
		e.prp2 = start + (first+1)*page
	case pages > 2:
		e.prp2 = v.Lists + uint64(s.Buffer)*uint64(y.ListBytes) + 8*first
	}
	e.cdw10, e.cdw11, e.cdw12 = uint32(s.LBA), uint32(s.LBA>>32), s.Blocks-1
	return e, layout.OK
}

// try sends an entry if there are an id and a place now.
func (d *Device) try(p *port, e entry) (Handle, bool) {
	if atomic.LoadUint32(&p.q.Failed) != 0 {
		return Handle{}, false
	}
	n := atomic.AddUint64(&p.q.NextCid, 1) - 1
	h := Handle{index: uint32(n % p.cidCount), word: layout.InFlight | p.generation(n/p.cidCount)<<2}
	if !atomic.CompareAndSwapUint32(&p.cids[h.index].Word, layout.Free, h.word) {
		return Handle{}, false
	}
	freed := atomic.LoadUint64(&p.q.Freed)
	ticket := atomic.LoadUint64(&p.q.Tickets)
	if ticket-freed >= p.depth-1 || !atomic.CompareAndSwapUint64(&p.q.Tickets, ticket, ticket+1) {
		atomic.StoreUint32(&p.cids[h.index].Word, layout.Free)
		return Handle{}, false
	}
	e.dw0 |= (h.index | h.word>>2<<p.cidBits) << 16
	p.sq[ticket%p.depth] = e
	atomic.StoreUint32(&p.ready[ticket%p.depth], uint32(ticket)+1)
	d.ringUntil(p, ticket+1)
	return h, true
}

func (p *port) generation(lap uint64) uint32 {
	return uint32(lap) & (1<<(16-p.cidBits) - 1) & 0x3fff
}

// ringUntil returns when the controller knows of all entries before end.
func (d *Device) ringUntil(p *port, end uint64) {
	w := d.watch(p)
	for {
		if atomic.CompareAndSwapUint32(&p.q.RingLock, 0, 1) {
			p.ringReady()
			atomic.StoreUint32(&p.q.RingLock, 0)
		}
		if atomic.LoadUint64(&p.q.Rung) >= end {
			return
		}
		if why := w.over(); why != layout.OK {
			if why == layout.Timeout {
				atomic.CompareAndSwapUint32(&p.q.Failed, 0, layout.QueueFailed)
			}
			return
		}
		runtime.Gosched()
	}
}

// ringReady rings once for all entries that are ready. Under the ring lock.
func (p *port) ringReady() {
	rung := atomic.LoadUint64(&p.q.Rung)
	n := rung
	for n-rung < p.depth-1 && atomic.LoadUint32(&p.ready[n%p.depth]) == uint32(n)+1 {
		n++
	}
	if n == rung {
		return
	}
	atomic.StoreUint32(p.sqDB, uint32(n%p.depth))
	atomic.StoreUint64(&p.q.Rung, n)
	atomic.AddUint64(&p.q.Doorbells, 1)
}

// poll takes completions, if nobody else is at it.
func (d *Device) poll(p *port) int {
	if !atomic.CompareAndSwapUint32(&p.q.CQLock, 0, 1) {
		return 0
	}
	defer atomic.StoreUint32(&p.q.CQLock, 0)
	before := atomic.LoadUint64(&p.q.CQHead)
	head, sqHead := before, uint64(0)
	for head-before < min(32, p.cqDepth-1) {
		c := &p.cq[head%p.cqDepth]
		dw3 := atomic.LoadUint32(&c.dw3)
		if uint64(dw3>>16&1) != head/p.cqDepth&1^1 {
			break
		}
		sqHead = uint64(atomic.LoadUint32(&c.dw2) & 0xffff)
		p.deliver(c, dw3)
		head++
	}
	if head == before {
		return 0
	}
	freed := atomic.LoadUint64(&p.q.Freed)
	if more := (sqHead + p.depth - freed%p.depth) % p.depth; more <= atomic.LoadUint64(&p.q.Tickets)-freed {
		atomic.StoreUint64(&p.q.Freed, freed+more)
	}
	atomic.StoreUint64(&p.q.CQHead, head)
	atomic.StoreUint32(p.cqDB, uint32(head%p.cqDepth))
	atomic.AddUint64(&p.q.Completions, head-before)
	return int(head - before)
}

func (p *port) deliver(c *completion, dw3 uint32) {
	cid := dw3 & 0xffff
	index, gen := cid&(1<<p.cidBits-1), cid>>p.cidBits<<2
	if uint64(index) < p.cidCount {
		id := &p.cids[index]
		if dw3>>17 != 0 {
			atomic.StoreUint32(&id.Dword0, atomic.LoadUint32(&c.dw0))
		}
		if atomic.CompareAndSwapUint32(&id.Word, layout.InFlight|gen, layout.Done|gen|dw3>>17<<16) ||
			atomic.CompareAndSwapUint32(&id.Word, layout.Abandoned|gen, layout.Free) {
			return
		}
	}
	atomic.AddUint32(&p.q.Spurious, 1)
}

// watch bounds one wait.
func (d *Device) watch(p *port) *watch { return &watch{d: d, p: p, begun: time.Now()} }

type watch struct {
	d     *Device
	p     *port
	begun time.Time
}

// over says why to stop waiting, or OK.
func (w *watch) over() uint32 {
	if w.p != nil {
		if why := atomic.LoadUint32(&w.p.q.Failed); why != 0 {
			return why
		}
	}
	if w.d.Stopped() {
		return layout.Stopped
	}
	if time.Since(w.begun) > time.Duration(w.d.Engine.DeadlineNS) {
		return layout.Timeout
	}
	return layout.OK
}

// ended says that the software GPU wants the kernel to end.
func (d *Device) ended() bool {
	select {
	case <-d.launch.Done():
		return true
	default:
		return false
	}
}

// Stopped says that the host asked kernels to end.
func (d *Device) Stopped() bool { return atomic.LoadUint32(d.stop) != 0 || d.ended() }
