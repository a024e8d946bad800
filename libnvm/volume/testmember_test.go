package volume

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// world is the power supply of some members: it fails after a number of
// operations. One goroutine uses it.
type world struct {
	ops   int
	limit int // operations until the power fails; below zero: never
	rng   *rand.Rand
	// fail, when set, lets one operation fail without a crash; the write may
	// have reached the medium or not.
	fail   func(op *Op) error
	queues []*testQueue
}

var errPower = errors.New("power failure")

// disk is what a member leaves behind.
type disk struct {
	durable  []byte
	volatile []volatileWrite // completed or in flight, and not flushed
}

type volatileWrite struct {
	off  int64
	data []byte
}

// crash keeps, of what was not flushed, any subset of 512-byte sectors.
func (d *disk) crash(rng *rand.Rand) {
	for _, w := range d.volatile {
		mode := rng.IntN(3) // lost, complete, torn
		for at := 0; at < len(w.data); at += 512 {
			if mode == 1 || mode == 2 && rng.IntN(2) == 0 {
				copy(d.durable[w.off+int64(at):], w.data[at:min(at+512, len(w.data))])
			}
		}
	}
	d.volatile = nil
}

// force makes one range durable; older cached writes no longer cover it.
func (d *disk) force(off int64, p []byte) {
	copy(d.durable[off:], p)
	var rest []volatileWrite
	for _, w := range d.volatile {
		lo, hi := max(off, w.off), min(off+int64(len(p)), w.off+int64(len(w.data)))
		if lo >= hi {
			rest = append(rest, w)
			continue
		}
		if lo > w.off {
			rest = append(rest, volatileWrite{w.off, w.data[:lo-w.off]})
		}
		if end := w.off + int64(len(w.data)); hi < end {
			rest = append(rest, volatileWrite{hi, w.data[hi-w.off:]})
		}
	}
	d.volatile = rest
}

func (d *disk) flush() {
	for _, w := range d.volatile {
		copy(d.durable[w.off:], w.data)
	}
	d.volatile = nil
}

func (d *disk) read(off int64, p []byte) {
	copy(p, d.durable[off:])
	for _, w := range d.volatile {
		lo, hi := max(off, w.off), min(off+int64(len(p)), w.off+int64(len(w.data)))
		if lo < hi {
			copy(p[lo-off:hi-off], w.data[lo-w.off:hi-w.off])
		}
	}
}

// testMember is a disk with a volatile write cache in a world.
type testMember struct {
	w    *world
	d    *disk
	name string
	id   Identity
	open int // queues and mappings
	t    testing.TB
}

func newDisk(bytes int) *disk { return &disk{durable: make([]byte, bytes)} }

func (m *testMember) Name() string       { return m.name }
func (m *testMember) Identity() Identity { return m.id }
func (m *testMember) BlockSize() int     { return 512 }
func (m *testMember) Size() int64        { return int64(len(m.d.durable)) }

func (m *testMember) Alloc(bytes int) ([]byte, Mapping, error) {
	buf := make([]byte, bytes)
	x, err := m.Map(buf)
	return buf, x, err
}

func (m *testMember) Map(buf []byte) (Mapping, error) {
	m.open++
	return &testMapping{m, buf, false}, nil
}

func (m *testMember) OpenQueue(depth int) (MemberQueue, error) {
	m.open++
	q := &testQueue{m: m, depth: depth}
	m.w.queues = append(m.w.queues, q)
	return q, nil
}

func (m *testMember) Close() error {
	if m.open != 0 {
		m.t.Errorf("%s: %d queues and mappings were not given back", m.name, m.open)
	}
	return nil
}

type testMapping struct {
	m    *testMember
	buf  []byte
	free bool
}

func (x *testMapping) Free() error {
	if x.free {
		x.m.t.Error("memory was freed twice")
	}
	x.free = true
	x.m.open--
	return nil
}

func (x *testMapping) Held() int { return 0 }

type testQueue struct {
	m     *testMember
	depth int
	ops   []Op
}

func (q *testQueue) Close() error {
	if len(q.ops) > 0 {
		q.m.t.Errorf("%s: a queue was closed with %d operations", q.m.name, len(q.ops))
	}
	q.m.open--
	return nil
}

func (q *testQueue) Held() int { return 0 }

func (q *testQueue) Submit(op *Op) error {
	if len(q.ops) == q.depth {
		return ErrQueueFull
	}
	if op.Timeout <= 0 || op.Kind != OpFlush && (op.Offset%512 != 0 || op.Length%512 != 0 || op.Length <= 0 || op.Offset+op.Length > q.m.Size()) {
		q.m.t.Errorf("%s: bad operation %+v", q.m.name, op)
	}
	q.ops = append(q.ops, *op)
	return nil
}

// Poll ends one operation, chosen by chance: completions come out of order.
func (q *testQueue) Poll(done []Done) int {
	if len(q.ops) == 0 {
		return 0
	}
	i := q.m.w.rng.IntN(len(q.ops))
	op := q.ops[i]
	q.ops[i] = q.ops[len(q.ops)-1]
	q.ops = q.ops[:len(q.ops)-1]
	done[0] = Done{op.Tag, q.m.perform(&op)}
	return 1
}

func (m *testMember) perform(op *Op) error {
	w := m.w
	if w.limit >= 0 && w.ops >= w.limit {
		if w.ops == w.limit && op.Kind == OpWrite { // caught in the middle
			m.cache(op)
		}
		w.ops++
		return errPower
	}
	w.ops++
	if w.fail != nil {
		if err := w.fail(op); err != nil {
			if op.Kind == OpWrite && w.rng.IntN(2) == 0 {
				m.cache(op)
				if w.rng.IntN(2) == 0 {
					m.d.crash(w.rng) // part of it only
				}
			}
			return err
		}
	}
	switch op.Kind {
	case OpRead:
		m.d.read(op.Offset, m.memory(op))
	case OpWrite:
		m.cache(op)
		if op.FUA { // this write is durable, not what is cached before it
			m.d.force(op.Offset, m.memory(op))
		}
	case OpFlush:
		m.d.flush()
	case OpWriteZeroes:
		m.d.volatile = append(m.d.volatile, volatileWrite{op.Offset, make([]byte, op.Length)})
	}
	return nil
}

func (m *testMember) memory(op *Op) []byte {
	x, ok := op.Mem.(*testMapping)
	if !ok || x.m != m || x.free {
		m.t.Fatalf("%s: memory of another member, or freed: %+v", m.name, op)
	}
	return x.buf[op.MemOffset : op.MemOffset+int(op.Length)]
}

func (m *testMember) cache(op *Op) {
	m.d.volatile = append(m.d.volatile, volatileWrite{op.Offset, append([]byte(nil), m.memory(op)...)})
}

// rig is some disks with a world around them.
type rig struct {
	t     testing.TB
	seed  uint64
	disks []*disk
	w     *world
}

func newRig(t testing.TB, seed uint64, sizes ...int) *rig {
	r := &rig{t: t, seed: seed, w: &world{limit: -1, rng: rand.New(rand.NewPCG(seed, 1))}}
	for _, n := range sizes {
		r.disks = append(r.disks, newDisk(n))
	}
	return r
}

// members are the disks as members of a fresh world, as after a reboot.
func (r *rig) members(limit int) []Member {
	r.w = &world{limit: limit, rng: r.w.rng}
	var ms []Member
	for i, d := range r.disks {
		ms = append(ms, &testMember{w: r.w, d: d, name: fmt.Sprintf("disk%d", i), id: Identity{Serial: fmt.Sprintf("S%d", i), NSID: 1}, t: r.t})
	}
	return ms
}

// powerOff crashes every disk. Writes in flight may have got through, too.
func (r *rig) powerOff() {
	for _, q := range r.w.queues {
		for i := range q.ops {
			if q.ops[i].Kind == OpWrite && r.w.rng.IntN(2) == 0 {
				q.m.cache(&q.ops[i])
			}
		}
	}

	for _, d := range r.disks {
		d.crash(r.w.rng)
	}
}

// clone copies the disks, so that one state can fail in many ways.
func (r *rig) clone(seed uint64) *rig {
	c := &rig{t: r.t, seed: seed, w: &world{limit: -1, rng: rand.New(rand.NewPCG(seed, 1))}}
	for _, d := range r.disks {
		x := &disk{durable: append([]byte(nil), d.durable...)}
		x.volatile = append(x.volatile, d.volatile...)
		c.disks = append(c.disks, x)
	}
	return c
}
