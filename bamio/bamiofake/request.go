package bamiofake

import (
	"runtime"
	"sync/atomic"

	"github.com/tritier/tritier/bamio/layout"
)

// taken is flipped in a request's sequence once its result was taken.
const taken = 1 << 31

// Request asks the CPU for something and waits for the answer.
func (d *Device) Request(kind uint32, arguments [5]uint64) uint32 {
	if d.ring == nil {
		return layout.BadArgument
	}
	w := d.watch(nil)
	n, ok := d.reserve()
	for !ok {
		if why := w.over(); why == layout.Timeout {
			return layout.Busy
		} else if why != layout.OK {
			return why
		}
		runtime.Gosched()
		n, ok = d.reserve()
	}
	s, mark := d.slot(n), uint32(n)+1
	s.Kind, s.Argument = kind, arguments
	atomic.StoreUint32(&s.Sequence, mark)
	for w = d.watch(nil); ; runtime.Gosched() {
		if atomic.LoadUint32(&s.Done) == mark {
			result := atomic.LoadUint32(&s.Result)
			atomic.StoreUint32(&s.Sequence, mark^taken)
			return result
		}
		if why := w.over(); why != layout.OK {
			atomic.StoreUint32(&s.Abandoned, mark)
			return why
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
