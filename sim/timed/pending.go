package timed

import (
	"math/bits"

	"github.com/tritier/tritier/placement"
)

// wait makes w wait until page p is where the accesses before have sent it.
// which is the request's own page that this is about.
func (r *Replay) wait(w int32, which int, p placement.Page) {
	on := r.pending[p]
	if on == 0 {
		return
	}
	node := w*marksOfAccess + int32(which)
	r.nodes[node] = r.waiters[on-1]
	r.waiters[on-1] = node
	r.lacks[w]++
}

// announce says that page p will be where it is going when the chain of w, as
// far as it has been set up, has ended.
func (r *Replay) announce(w int32, which int, p placement.Page) {
	q := &r.requests[w]
	if q.n == 0 {
		r.early[w] |= 1 << which
	} else {
		q.stages[q.n-1].marks |= 1 << which
	}
	r.page[w*marksOfAccess+int32(which)] = p
	r.pending[p] = uint32(w*marksOfAccess+int32(which)) + 1
}

// launch begins w's chain unless it waits for others.
func (r *Replay) launch(w int32) {
	if r.lacks[w] == 0 {
		r.start(w)
		r.startReady()
	}
}

func (r *Replay) start(w int32) {
	if r.early[w] != 0 {
		r.reached(w, r.early[w])
	}
	if r.requests[w].n == 0 {
		r.end(w)
		return
	}
	r.begin(w)
}

// startReady begins those that others have made ready, who may make more so.
func (r *Replay) startReady() {
	for i := 0; i < len(r.ready); i++ {
		r.start(r.ready[i])
	}
	r.ready = r.ready[:0]
}

// moved is told by the engine that a stage with marks has ended.
func (r *Replay) moved(w int32, marks uint8) {
	r.reached(w, marks)
	r.startReady()
}

// reached keeps w's announcements.
func (r *Replay) reached(w int32, marks uint8) {
	for ; marks != 0; marks &= marks - 1 {
		on := w*marksOfAccess + int32(bits.TrailingZeros8(marks))
		if p := r.page[on]; r.pending[p] == uint32(on)+1 {
			r.pending[p] = 0
		}
		first := len(r.ready)
		for node := r.waiters[on]; node != none; node = r.nodes[node] {
			if waiter := node / marksOfAccess; r.lacks[waiter] == 1 {
				r.lacks[waiter] = 0
				r.ready = append(r.ready, waiter)
			} else {
				r.lacks[waiter]--
			}
		}
		r.waiters[on] = none
		reverse(r.ready[first:]) // who came first is first
	}
}

func reverse(s []int32) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}

// done is told by the engine that w's chain has ended.
func (r *Replay) done(w int32) { r.end(w) }

func (r *Replay) end(w int32) {
	r.waits[r.kind[w]].add(r.now - r.issued[w])
	r.free = append(r.free, w)
	r.ended++
}
