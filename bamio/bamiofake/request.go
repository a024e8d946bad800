package bamiofake

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/bamio/layout"
)

// taken is flipped in a request's sequence once its result was taken.
const taken = 1 << 31

// Request asks the CPU for something and waits for the answer.
func (d *Device) Request(kind uint32, arguments [5]uint64) uint32 {
	s, mark, why := d.send(kind, arguments)
	if why != layout.OK {
		return why
	}
	result, why := d.answer(s, mark, d.watch(nil).over)
	if why != layout.OK {
		atomic.StoreUint32(&s.Abandoned, mark)
		return why
	}
	return result
}

// Settle is Request by settle_request: what the CPU has not begun within patience is
// withdrawn.
func (d *Device) Settle(kind uint32, arguments [5]uint64, patience time.Duration) uint32 {
	s, mark, why := d.send(kind, arguments)
	if why != layout.OK {
		return why
	}
	begun := time.Now()
	result, why := d.answer(s, mark, func() uint32 {
		if time.Since(begun) > patience {
			return layout.Timeout
		}
		return layout.OK
	})
	if why == layout.OK {
		return result
	}
	atomic.SwapUint32(&s.Withdrawn, mark) // no Store: see begin of package bamio
	if done := atomic.LoadUint32(&s.Done); done != mark && done != mark^layout.Begun {
		atomic.StoreUint32(&s.Abandoned, mark)
		return layout.NotBegun
	}
	if result, why = d.answer(s, mark, d.watch(nil).over); why != layout.OK {
		atomic.StoreUint32(&s.Abandoned, mark)
		return why
	}
	return result
}

// Withdrawn sends a request that is withdrawn before anybody can see it, and waits for
// the answer.
func (d *Device) Withdrawn(kind uint32, arguments [5]uint64) uint32 {
	s, mark, why := d.sendAs(kind, arguments, true)
	if why != layout.OK {
		return why
	}
	result, why := d.answer(s, mark, d.watch(nil).over)
	if why != layout.OK {
		atomic.StoreUint32(&s.Abandoned, mark)
		return why
	}
	return result
}

// send puts a request into the ring.
func (d *Device) send(kind uint32, arguments [5]uint64) (s *layout.Request, mark, why uint32) {
	return d.sendAs(kind, arguments, false)
}

func (d *Device) sendAs(kind uint32, arguments [5]uint64, withdrawn bool) (s *layout.Request, mark, why uint32) {
	if d.ring == nil {
		return nil, 0, layout.BadArgument
	}
	w := d.watch(nil)
	n, ok := d.reserve()
	for !ok {
		if why := w.over(); why == layout.Timeout {
			return nil, 0, layout.Busy
		} else if why != layout.OK {
			return nil, 0, why
		}
		runtime.Gosched()
		n, ok = d.reserve()
	}
	s, mark = d.slot(n), uint32(n)+1
	s.Kind, s.Argument = kind, arguments
	if withdrawn {
		atomic.StoreUint32(&s.Withdrawn, mark)
	}
	atomic.StoreUint32(&s.Sequence, mark)
	return s, mark, layout.OK
}

// answer waits for a request's answer and takes it.
func (d *Device) answer(s *layout.Request, mark uint32, over func() uint32) (result, why uint32) {
	for ; ; runtime.Gosched() {
		if atomic.LoadUint32(&s.Done) == mark {
			result := atomic.LoadUint32(&s.Result)
			atomic.StoreUint32(&s.Sequence, mark^taken)
			return result, layout.OK
		}
		if why := over(); why != layout.OK {
			return 0, why
		}
	}
}

func (d *Device) slot(n uint64) *layout.Request { return &d.requests[n%uint64(len(d.requests))] }

// reserve takes a place in the ring if there is one.
func (d *Device) reserve() (n uint64, ok bool) {
	head := atomic.LoadUint64(&d.ring.Head)
	n = atomic.LoadUint64(&d.ring.Tail)
	if n-head >= uint64(len(d.requests)) {
		d.retire()
		return 0, false
	}
	return n, atomic.CompareAndSwapUint64(&d.ring.Tail, n, n+1)
}

// retire moves the head over the requests whose slots nobody needs any more.
func (d *Device) retire() {
	for range d.requests {
		n := atomic.LoadUint64(&d.ring.Head)
		if n == atomic.LoadUint64(&d.ring.Tail) {
			return
		}
		s, mark := d.slot(n), uint32(n)+1
		through := atomic.LoadUint32(&s.Sequence) == mark^taken
		left := !through && atomic.LoadUint32(&s.Abandoned) == mark && atomic.LoadUint32(&s.Done) == mark
		if !through && !left {
			return
		}
		atomic.CompareAndSwapUint64(&d.ring.Head, n, n+1)
	}
}
