package soft_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// mayhem is a seeded fault plan for I/O commands.
type mayhem struct {
	mu    sync.Mutex
	rng   *rand.Rand
	drops int
	holds bool
}

func (m *mayhem) Command(i *soft.CommandInfo) (f soft.Fault) {
	if i.Queue == 0 {
		return f
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.rng.IntN(24) {
	case 0:
		f.Status, f.DNR = libnvm.StatusUnrecoveredRead, true
		if i.Opcode != libnvm.OpRead {
			f.Status = libnvm.StatusWriteFault
		}
		f.Transfer = m.rng.Int64N(3*8192) - 8192 // none, part, or all of the data
	case 1:
		f.Delay = time.Duration(m.rng.IntN(300)) * time.Microsecond
	case 2:
		f.Duplicates = 1 + m.rng.IntN(2)
	case 3:
		f.Torn = true
	case 4, 5:
		if m.holds {
			f.Hold = 1 + m.rng.IntN(5)
		}
	case 6:
		f.StaleHead = true
	case 7:
		if m.rng.IntN(20) == 0 {
			f.Drop = true
			m.drops++
		}
	}
	return f
}

// rig is a driver over a controller with faults, and what each block may hold.
type rig struct {
	t    *testing.T
	rng  *rand.Rand
	q    *libnvm.QueuePair
	ns   *libnvm.Namespace
	bufs []*libnvm.Memory
	jobs []job
	// may[b] lists the versions that block b may hold: after a write that
	// failed or was lost both the old and the new.
	may     [][]uint32
	version uint32
}

type job struct {
	busy    bool
	write   bool
	lba, n  uint64
	version uint32
}

const (
	rigBlocks = 48
	rigMost   = 5
)

// TestFaultsAgainstModel runs thousands of random requests under faults. What
// is reported as read was written there; what failed says so; every request
// ends exactly once.
func TestFaultsAgainstModel(t *testing.T) {
	for _, x := range []struct{ depth, ops int }{{2, 400}, {3, 500}, {16, 2500}} {
		for seed := range uint64(2) {
			if testing.Short() {
				x.ops = min(x.ops, 600)
			}
			t.Run(fmt.Sprintf("depth=%d,seed=%d", x.depth, seed), func(t *testing.T) { runMayhem(t, x.depth, seed, x.ops) })
		}
	}
}

func runMayhem(t *testing.T, depth int, seed uint64, ops int) {
	// In a shallow queue no later completion comes that a held one waits for.
	plan := &mayhem{rng: rand.New(rand.NewPCG(seed, 2)), holds: depth > 3}
	s := start(t, 1<<20, soft.Config{Faults: plan, MaxTransfer: 8192, Threads: 2})
	c := bringUp(t, s, libnvm.Config{IOTimeout: 50 * time.Millisecond})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: depth})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, rng: rand.New(rand.NewPCG(seed, 1)), q: q, ns: ns, may: make([][]uint32, rigBlocks), jobs: make([]job, depth)}
	for b := range r.may {
		r.may[b] = []uint32{0}
	}
	for range depth {
		m, err := s.Alloc(rigMost * 4096)
		if err != nil {
			t.Fatal(err)
		}
		r.bufs = append(r.bufs, m)
	}
	for range ops {
		r.step()
	}
	for r.busy() {
		r.collect()
	}
	st := q.Stats()
	t.Logf("seed %d: %+v", seed, st)
	if st.Submitted != st.Completed || st.UnknownCID != 0 {
		t.Fatalf("seed %d: %+v", seed, st)
	}
	if got := s.Stats(); got.DoorbellRange+got.DoorbellBackward != 0 {
		t.Fatalf("seed %d: the driver rang wrong doorbell values: %+v", seed, got)
	}
}

func (r *rig) busy() bool {
	for i := range r.jobs {
		if r.jobs[i].busy {
			return true
		}
	}
	return false
}

// step starts one request on blocks that no other request uses.
func (r *rig) step() {
	k := r.rng.IntN(len(r.jobs))
	n := r.rng.Uint64N(rigMost) + 1
	lba := r.rng.Uint64N(rigBlocks - n + 1)
	write := r.rng.IntN(2) == 0
	for {
		clash := r.jobs[k].busy
		for i := range r.jobs {
			j := &r.jobs[i]
			clash = clash || j.busy && lba < j.lba+j.n && j.lba < lba+n
		}
		if !clash {
			break
		}
		r.collect()
	}
	if r.q.Quarantined() > 0 { // lost commands: their memory may not be used again
		for r.busy() {
			r.collect()
		}
		if err := r.q.Reset(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.version++
	req := libnvm.Request{Op: libnvm.OpRead, NS: r.ns, LBA: lba, Blocks: n, Mem: r.bufs[k], Tag: uint64(k)}
	buf := r.bufs[k].Bytes()[:n*4096]
	if write {
		req.Op = libnvm.OpWrite
		for i := range n {
			fill(buf[i*4096:(i+1)*4096], lba+i, r.version)
		}
	} else {
		for i := range buf {
			buf[i] = 0xee
		}
	}
	for {
		_, err := r.q.Submit(&req)
		if err == nil {
			break
		}
		if !errors.Is(err, libnvm.ErrQueueFull) {
			if errors.Is(err, libnvm.ErrQuarantineFull) || errors.Is(err, libnvm.ErrHeadStalled) {
				if err = r.q.Reset(); err == nil {
					continue
				}
			}
			r.t.Fatal(err)
		}
		r.collect()
	}
	r.jobs[k] = job{true, write, lba, n, r.version}
}

// fill makes a block that tells its number and version.
func fill(b []byte, lba uint64, version uint32) {
	for i := 0; i < len(b); i += 8 {
		b[i], b[i+1], b[i+2], b[i+3] = byte(version), byte(version>>8), byte(version>>16), byte(version>>24)
		b[i+4], b[i+5], b[i+6], b[i+7] = byte(lba), byte(i>>3), 0x5a, byte(version)
	}
}

func (r *rig) collect() {
	out := make([]libnvm.Completion, 4)
	end := time.Now().Add(20 * time.Second)
	n := 0
	for n == 0 {
		if n = r.q.Poll(out); n == 0 && time.Now().After(end) {
			r.t.Fatal("no completion for 20 s")
		}
	}
	for _, c := range out[:n] {
		r.end(&c)
	}
}

func (r *rig) end(c *libnvm.Completion) {
	j := &r.jobs[c.Tag]
	if !j.busy {
		r.t.Fatalf("request %d ended twice", c.Tag)
	}
	j.busy = false
	want := make([]byte, 4096)
	for i := range j.n {
		b := j.lba + i
		switch {
		case j.write && c.Err == nil:
			r.may[b] = []uint32{j.version}
		case j.write:
			r.may[b] = append(r.may[b], j.version)
		case c.Err == nil:
			got := r.bufs[c.Tag].Bytes()[i*4096 : (i+1)*4096]
			ok := false
			for _, v := range r.may[b] {
				clear(want)
				if v != 0 {
					fill(want, b, v)
				}
				if ok = bytes.Equal(got, want); ok {
					r.may[b] = []uint32{v} // from now on it is this one
					break
				}
			}
			if !ok {
				r.t.Fatalf("block %d holds %x..., none of versions %v", b, got[:8], r.may[b])
			}
		}
	}
	var se *libnvm.StatusError
	var te *libnvm.TimeoutError
	if c.Err != nil && !errors.As(c.Err, &se) && !errors.As(c.Err, &te) {
		r.t.Fatalf("request ended with %v", c.Err)
	}
}

// one is a fault for the next I/O command only.
type one struct {
	mu   sync.Mutex
	next *soft.Fault
}

func (o *one) Command(i *soft.CommandInfo) soft.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil || i.Queue == 0 {
		return soft.Fault{}
	}
	f := *o.next
	o.next = nil
	return f
}

func (o *one) set(f soft.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = &f
}

// eachFault has a fault of each kind and what the host sees of a read of 8 KiB.
var eachFault = map[string]struct {
	f     soft.Fault
	check func(err error, q *libnvm.QueuePair, data []byte) bool
}{
	"status": {soft.Fault{Status: libnvm.StatusInternalError, DNR: true}, func(err error, _ *libnvm.QueuePair, d []byte) bool {
		var se *libnvm.StatusError
		return errors.As(err, &se) && se.Status == libnvm.StatusInternalError && se.DNR && d[0] == 0xee
	}},
	"short read": {soft.Fault{Status: libnvm.StatusUnrecoveredRead, Transfer: 4096}, func(err error, _ *libnvm.QueuePair, d []byte) bool {
		return errors.Is(err, &libnvm.StatusError{Status: libnvm.StatusUnrecoveredRead}) && d[0] == 7 && d[4096] == 0xee
	}},
	"corrupt": {soft.Fault{Corrupt: true}, func(err error, _ *libnvm.QueuePair, d []byte) bool {
		return err == nil && bytes.Count(d[:8192], []byte{7}) == 8191
	}},
	"drop": {soft.Fault{Drop: true}, func(err error, q *libnvm.QueuePair, _ []byte) bool {
		var te *libnvm.TimeoutError
		return errors.As(err, &te) && q.Quarantined() == 1
	}},
	"fatal": {soft.Fault{Fatal: true}, func(err error, _ *libnvm.QueuePair, _ []byte) bool {
		var fe *libnvm.ControllerFatalError
		return errors.As(err, &fe)
	}},
	"torn": {soft.Fault{Torn: true}, func(err error, _ *libnvm.QueuePair, d []byte) bool { return err == nil && d[8191] == 7 }},
	"duplicate": {soft.Fault{Duplicates: 2}, func(err error, q *libnvm.QueuePair, _ []byte) bool {
		for end := time.Now().Add(10 * time.Second); q.Stats().Duplicate < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			q.Poll(make([]libnvm.Completion, 1))
		}
		return err == nil && q.Stats().Duplicate == 2
	}},
}

// TestDuplicatesLeaveRoom: completions that come twice take room in the completion queue,
// which the controller must get back also when no command is sent any more.
func TestDuplicatesLeaveRoom(t *testing.T) {
	plan, err := soft.NewFaultPlan(1, soft.Rule{Queue: 1, Probability: 1, Fault: soft.Fault{Duplicates: 2}})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, 1<<20, soft.Config{Faults: plan})
	c := bringUp(t, s, libnvm.Config{IOTimeout: 2 * time.Second})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		var tickets []libnvm.Ticket
		for range 3 {
			n, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: m})
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, n)
		}
		for _, n := range tickets {
			if _, err := q.Wait(n, 0); err != nil {
				t.Fatalf("%v, %+v", err, q.Stats())
			}
		}
	}
	if q.Stats().Duplicate == 0 {
		t.Error("nothing came twice")
	}
	if err := errors.Join(q.Close(), m.Free()); err != nil {
		t.Error(err)
	}
}

// TestEachFault shows what the host sees of each kind of fault.
func TestEachFault(t *testing.T) {
	plan := &one{}
	s := start(t, 1<<20, soft.Config{Faults: plan})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range eachFault {
		t.Run(name, func(t *testing.T) {
			q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
			if err != nil {
				t.Fatal(err)
			}
			m, err := s.Alloc(8192)
			if err != nil {
				t.Fatal(err)
			}
			r := libnvm.Request{Op: libnvm.OpWrite, NS: ns, LBA: 4, Blocks: 2, Mem: m}
			for i := range m.Bytes() {
				m.Bytes()[i] = 7
			}
			if err := q.Do(&r); err != nil {
				t.Fatal(err)
			}
			for i := range m.Bytes() {
				m.Bytes()[i] = 0xee
			}
			plan.set(x.f)
			r.Op = libnvm.OpRead
			if x.f.Drop {
				r.Timeout = 100 * time.Millisecond
			}
			if err := q.Do(&r); !x.check(err, q, m.Bytes()) {
				t.Errorf("got %v, %+v", err, q.Stats())
			}
			r.Timeout = 0
			if c.Health() != nil {
				if err := c.Reset(); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(q.Reset(), q.Do(&r), q.Close(), m.Free()); err != nil {
				t.Fatal("afterwards: ", err)
			}
		})
	}
}
