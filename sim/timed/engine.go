package timed

import "math"

// user hears of what becomes of its requests.
type user interface {
	moved(req int32, marks uint8) // a stage with marks has ended
	done(req int32)               // the last stage has ended
}

// none is the number of no request, station or server.
const none = -1

// station is a place with slots, where requests wait in order of arrival.
type station struct {
	slots, inUse, waiting int32
	head, tail            int32 // waiting requests
	server                int32 // whose shared time a request takes, or none
	held                  int64 // ns that slots were taken, added up
}

// operation is what a stage does, the same for all requests.
type operation struct {
	edge    uint8   // whose latency it counts towards
	joined  bool    // that latency began with the stage before
	keeps   bool    // the slot is held until an operation that frees it
	silent  bool    // its latency is part of a later stage's
	frees   int32   // station whose slot is given back as well, or none
	lane    int8    // of its events, if the latency is constant; or none
	least   cost    // shared time: at least this, for a limit of operations
	bytes   cost    // for the payload
	command cost    // for the command
	spread  cost    // command * (units - 1), shared by the commands outstanding
	alone   int64   // ns: no command is done sooner than one that has the drive to itself
	latency []int64 // ns; one of them, by chance
	extra   int64   // ns
	links   []linkUse
	linkNS  int64 // of a payload alone on the slowest of the links
}

// linkUse is the shared time that one payload takes of a link.
type linkUse struct {
	server int32
	cost   cost
}

// stage is an operation at a station.
type stage struct {
	op      uint8
	marks   uint8 // told to the user when it ends
	station int32
}

// maxStages is the longest chain: write T2's victim and T1's with their threads
// and copies, fill the page, access it.
const maxStages = 12

// request is a chain of stages under way.
type request struct {
	stages  [maxStages]stage
	n, at   uint8
	crosses bool  // the next event is the payload's arrival at its links
	next    int32 // in a station's queue
	begun   int64 // ns; the latency of the stage's edge counts from here
	started int64 // ns; the slot was taken
	ends    int64 // ns; the drive is done
}

// engine carries requests through their stages in order of time.
type engine struct {
	now      int64 // ns
	order    uint64
	draws    uint64
	seed     uint64
	heap     heap4
	lanes    [lanes]lane
	stations []station
	servers  []server
	ops      []operation
	requests []request
	edges    [edges]histogram
	user     user
	overdue  bool // time has passed what a server can count
}

// maxTime keeps a server's picoseconds within 63 bits: 70 days.
const maxTime = math.MaxInt64 / psPerNS * 2 / 3

// schedule makes an event of request r.
func (e *engine) schedule(at int64, r int32, ln int8) {
	ev := event{at, e.order<<requestBits | uint64(r)}
	e.order++
	if ln == none {
		e.heap.push(ev)
		return
	}
	e.lanes[ln].push(ev)
}

// step lets the next event happen; false if there is none.
func (e *engine) step() bool {
	const fromHeap, nowhere = lanes, lanes + 1
	var first event
	from := nowhere
	if len(e.heap) > 0 {
		first, from = e.heap[0], fromHeap
	}
	for i := range e.lanes {
		if l := &e.lanes[i]; !l.empty() {
			if ev := l.first(); from == nowhere || ev.before(first) {
				first, from = ev, i
			}
		}
	}
	switch from {
	case nowhere:
		return false
	case fromHeap:
		e.heap.pop()
	default:
		e.lanes[from].pop()
	}
	e.now = first.at
	if e.now > maxTime {
		e.overdue = true
	}
	r := int32(first.key & (maxRequests - 1))
	if e.requests[r].crosses {
		e.cross(r)
	} else {
		e.finish(r)
	}
	return true
}

// begin starts r's chain, which has at least one stage, now.
func (e *engine) begin(r int32) {
	e.requests[r].at = 0
	e.arrive(r)
}

// arrive takes a slot of the stage's station, or waits for one.
func (e *engine) arrive(r int32) {
	q := &e.requests[r]
	s := q.stages[q.at]
	if !e.ops[s.op].joined {
		q.begun = e.now
	}
	st := &e.stations[s.station]
	if st.inUse < st.slots {
		e.start(r, q, st)
		return
	}
	q.next = none
	if st.head == none {
		st.head = r
	} else {
		e.requests[st.tail].next = r
	}
	st.tail = r
	st.waiting++
}

// start serves r, which has a slot.
func (e *engine) start(r int32, q *request, st *station) {
	o := &e.ops[q.stages[q.at].op]
	st.inUse++
	q.started = e.now
	end := e.now + max(e.draw(o), o.alone) + o.extra
	if st.server != none {
		work := max(o.bytes+o.command, o.least)
		c := work
		if o.spread > 0 {
			c = max(c, o.bytes+o.command+o.spread/cost(st.inUse+st.waiting))
		}
		end = max(end, e.servers[st.server].take(e.now, c, work))
	}
	if len(o.links) == 0 {
		e.schedule(end, r, o.lane)
		return
	}
	q.ends = end
	if at := end - o.linkNS; at > e.now {
		q.crosses = true
		e.schedule(at, r, none)
		return
	}
	e.cross(r)
}

// cross puts r's payload on its links, all at once.
func (e *engine) cross(r int32) {
	q := &e.requests[r]
	q.crosses = false
	end := q.ends
	for _, l := range e.ops[q.stages[q.at].op].links {
		end = max(end, e.servers[l.server].take(e.now, l.cost, l.cost))
	}
	e.schedule(end, r, none)
}

// finish ends r's stage.
func (e *engine) finish(r int32) {
	q := &e.requests[r]
	s := q.stages[q.at]
	o := &e.ops[s.op]
	st := &e.stations[s.station]
	if !o.silent {
		e.edges[o.edge].add(e.now - q.begun)
	}
	if !o.keeps {
		st.held += e.now - q.started
		e.release(st)
	}
	if o.frees != none {
		st := &e.stations[o.frees]
		st.held += e.now - q.begun
		e.release(st)
	}
	if s.marks != 0 {
		e.user.moved(r, s.marks)
	}
	if q.at++; q.at < q.n {
		e.arrive(r)
		return
	}
	e.user.done(r)
}

// release gives a slot to whoever waits for it.
func (e *engine) release(st *station) {
	st.inUse--
	if st.head == none {
		return
	}
	r := st.head
	q := &e.requests[r]
	st.head = q.next
	st.waiting--
	e.start(r, q, st)
}

// draw is the latency of one operation, by its number.
func (e *engine) draw(o *operation) int64 {
	switch len(o.latency) {
	case 0:
		return 0
	case 1:
		return o.latency[0]
	}
	e.draws++
	return o.latency[mix(e.seed+e.draws*0x9e3779b97f4a7c15)>>(64-tableBits)]
}

// mix is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// tableBits is the size of a latency distribution's table.
const tableBits = 10

// latencies tabulates a log-normal distribution at equally likely points, with
// exactly the mean that is asked for, to a nanosecond.
func latencies(mean, sigma float64) []int64 {
	if mean <= 0 {
		return nil
	}
	if sigma == 0 {
		return []int64{int64(math.Ceil(mean))}
	}
	const n = 1 << tableBits
	factors, sum := make([]float64, n), 0.0
	for i := range factors {
		p := (float64(i) + 0.5) / n
		factors[i] = math.Exp(sigma * math.Sqrt2 * math.Erfinv(2*p-1))
		sum += factors[i]
	}
	table := make([]int64, n)
	for i, f := range factors {
		table[i] = int64(math.Ceil(mean * f * n / sum))
	}
	return table
}
