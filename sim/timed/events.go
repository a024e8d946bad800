package timed

// event is something that happens to a request. Events at the same time happen
// in the order in which they were made.
type event struct {
	at  int64  // ns
	key uint64 // order of making, then request: order<<requestBits | request
}

// requestBits is the width of a request's number in an event.
const requestBits = 24

// maxRequests bounds the requests in flight.
const maxRequests = 1 << requestBits

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.key < o.key }

// heap4 is a min-heap with four children a node: fewer cache lines than two.
type heap4 []event

func (h *heap4) push(e event) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
	*h = s
}

// pop removes the first event. The heap must not be empty.
func (h *heap4) pop() event {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	n, i := len(s), 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if s[c].before(s[least]) {
				least = c
			}
		}
		if !s[least].before(last) {
			break
		}
		s[i] = s[least]
		i = least
	}
	if n > 0 {
		s[i] = last
	}
	return first
}

// lane is a queue of events whose times never go back: those of stages with a
// constant latency, which are most of the events of a replay.
type lane struct {
	ring       []event // a power of two
	head, tail uint32
}

func (l *lane) empty() bool  { return l.head == l.tail }
func (l *lane) first() event { return l.ring[l.head&uint32(len(l.ring)-1)] }
func (l *lane) pop()         { l.head++ }

func (l *lane) push(e event) {
	if int(l.tail-l.head) == len(l.ring) {
		l.grow()
	}
	l.ring[l.tail&uint32(len(l.ring)-1)] = e
	l.tail++
}

func (l *lane) grow() {
	ring := make([]event, max(64, 2*len(l.ring)))
	n := uint32(0)
	for ; l.head != l.tail; l.head++ {
		ring[n] = l.first()
		n++
	}
	l.ring, l.head, l.tail = ring, 0, n
}
