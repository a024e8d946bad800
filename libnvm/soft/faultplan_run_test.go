package soft_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// storm is a plan in which a part of all commands goes wrong, in every way from
// which a driver recovers. Reset says
func storm(t testing.TB, seed uint64, drop bool) *soft.FaultPlan {
	t.Helper()
	p := func(name string, x float64, f soft.Fault, ops ...libnvm.Opcode) soft.Rule {
		return soft.Rule{Name: name, Probability: x, Fault: f, Opcodes: ops}
	}
	rules := []soft.Rule{
		p("read error", 0.03, soft.Fault{Status: libnvm.StatusUnrecoveredRead}, libnvm.OpRead),
		p("short read", 0.02, soft.Fault{Status: libnvm.StatusUnrecoveredRead, Transfer: 512}, libnvm.OpRead),
		p("write error", 0.02, soft.Fault{Status: libnvm.StatusWriteFault}, libnvm.OpWrite),
		p("short write", 0.02, soft.Fault{Status: libnvm.StatusWriteFault, Transfer: 512, DNR: true}, libnvm.OpWrite),
		p("late", 0.05, soft.Fault{Delay: 300 * time.Microsecond}),
		p("duplicate", 0.05, soft.Fault{Duplicates: 1}),
		p("out of order", 0.1, soft.Fault{Hold: 3}),
		p("torn", 0.05, soft.Fault{Torn: true}),
		p("stalled head", 0.1, soft.Fault{StaleHead: true}),
	}
	if drop {
		rules = append(rules, soft.Rule{Name: "drop", Skip: 100, Nth: 150, Fault: soft.Fault{Drop: true}})
	}
	plan, err := soft.NewFaultPlan(seed, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// stormRun is random I/O under a storm, with a model of every block: the
// contents that it may have.
type stormRun struct {
	testing.TB
	c      *libnvm.Controller
	q      *libnvm.QueuePair
	ns     *libnvm.Namespace
	mem    *libnvm.Memory
	rng    *rand.Rand
	may    [][][]byte // by block: after a failed write, old and new
	jobs   []stormJob
	idle   []int
	resets int
	failed int
}

type stormJob struct {
	busy  bool
	lba   int
	n     int
	write bool
}

const (
	stormBlocks = 64
	stormDepth  = 8
	stormMost   = 4 // blocks of a request
	stormBlock  = 512
)

func (s *stormRun) slot(i int) []byte {
	return s.mem.Bytes()[i*stormMost*stormBlock : (i+1)*stormMost*stormBlock]
}

// free reports whether no job touches the blocks.
func (s *stormRun) free(lba, n int) bool {
	for _, j := range s.jobs {
		if j.busy && lba < j.lba+j.n && j.lba < lba+n {
			return false
		}
	}
	return true
}

// submit sends one random request, if a slot and the blocks are free.
func (s *stormRun) submit() {
	n := 1 + s.rng.IntN(stormMost)
	lba := s.rng.IntN(stormBlocks - n + 1)
	if len(s.idle) == 0 || !s.free(lba, n) {
		return
	}
	i := s.idle[len(s.idle)-1]
	j := stormJob{true, lba, n, s.rng.IntN(2) == 0}
	r := libnvm.Request{Op: libnvm.OpRead, NS: s.ns, LBA: uint64(lba), Blocks: uint64(n), Mem: s.mem,
		Offset: i * stormMost * stormBlock, Tag: uint64(i), Timeout: 200 * time.Millisecond}
	buf := s.slot(i)
	for k := range buf {
		buf[k] = byte(s.rng.Uint32())
	}
	if j.write {
		r.Op = libnvm.OpWrite
		r.FUA = s.rng.IntN(8) == 0
		for k := range n { // until it has ended, either content may be there
			s.may[lba+k] = append(s.may[lba+k], bytes.Clone(buf[k*stormBlock:(k+1)*stormBlock]))
		}
	}
	_, err := s.q.Submit(&r)
	switch {
	case errors.Is(err, libnvm.ErrQueueFull), errors.Is(err, libnvm.ErrQuarantineFull):
		for k := 0; j.write && k < n; k++ {
			s.may[lba+k] = s.may[lba+k][:len(s.may[lba+k])-1]
		}
		return
	case err != nil:
		s.Fatal(err)
	}
	s.jobs[i] = j
	s.idle = s.idle[:len(s.idle)-1]
}

// finish judges one completion. It returns true when the queue needs a reset.
func (s *stormRun) finish(c libnvm.Completion) (lost bool) {
	j := &s.jobs[c.Tag]
	if !j.busy {
		s.Fatalf("request %d completed twice", c.Tag)
	}
	var status *libnvm.StatusError
	var timeout *libnvm.TimeoutError
	lost = errors.As(c.Err, &timeout) || errors.Is(c.Err, libnvm.ErrReset)
	if c.Err != nil {
		s.failed++
		want := libnvm.StatusUnrecoveredRead
		if j.write {
			want = libnvm.StatusWriteFault
		}
		if !lost && (!errors.As(c.Err, &status) || status.Status != want) {
			s.Fatalf("request %d: %v", c.Tag, c.Err)
		}
	}
	for k := range j.n {
		got, may := s.slot(int(c.Tag))[k*stormBlock:(k+1)*stormBlock], &s.may[j.lba+k]
		switch {
		case c.Err != nil:
		case j.write:
			*may = (*may)[len(*may)-1:]
		default:
			s.known(j.lba+k, got)
		}
	}
	if !lost { // a lost request keeps its slot until the reset
		j.busy = false
		s.idle = append(s.idle, int(c.Tag))
	}
	return lost
}

// known checks a block that was read, and that it stays what it is.
func (s *stormRun) known(lba int, got []byte) {
	for _, content := range s.may[lba] {
		if bytes.Equal(got, content) {
			s.may[lba] = [][]byte{content}
			return
		}
	}
	s.Fatalf("block %d holds none of %d possible contents", lba, len(s.may[lba]))
}

// settle waits for everything in flight; after a lost completion it resets the
// queue pair, and only then are the lost requests over.
func (s *stormRun) settle() {
	done := make([]libnvm.Completion, stormDepth)
	for end := time.Now().Add(10 * time.Second); s.q.Outstanding() > 0; {
		for _, c := range done[:s.q.Poll(done)] {
			s.finish(c)
		}
		if time.Now().After(end) {
			s.Fatal("requests did not end")
		}
	}
	for n := s.q.Poll(done); n > 0; n = s.q.Poll(done) {
		for _, c := range done[:n] {
			s.finish(c)
		}
	}
	if s.q.Quarantined() > 0 {
		if err := s.q.Reset(); err != nil {
			s.Fatal(err)
		}
		s.resets++
	}
	s.idle = s.idle[:0]
	for i := range s.jobs {
		s.jobs[i].busy = false
		s.idle = append(s.idle, i)
	}
}

// run sends so many requests, within 60 seconds.
func (s *stormRun) run(ops int) {
	done := make([]libnvm.Completion, stormDepth)
	for end := time.Now().Add(time.Minute); s.q.Stats().Submitted < uint64(ops); {
		if time.Now().After(end) {
			s.Fatalf("%d of %d requests sent in 60 s", s.q.Stats().Submitted, ops)
		}
		s.submit()
		n := s.q.Poll(done)
		for _, c := range done[:n] {
			if s.finish(c) {
				s.settle()
				break
			}
		}
		if n == 0 {
			time.Sleep(20 * time.Microsecond)
		}
	}
	s.settle()
}

// TestFileUnderFaults is thousands of random requests over a file, with faults,
// against a model of every block.
func TestFileUnderFaults(t *testing.T) {
	ops := 2500
	if testing.Short() {
		ops = 800
	}
	for name, o := range map[string]soft.FileOptions{"auto": {}, "without io_uring": {Engine: soft.EngineSync}} {
		for seed, drop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s seed %d drop %v", name, seed, drop), func(t *testing.T) {
				o.Size = 1 << 20
				f, err := soft.OpenFile(filepath.Join(t.TempDir(), "disk"), o)
				if err != nil {
					t.Fatal(err)
				}
				plan := storm(t, uint64(seed), drop)
				cfg := soft.Config{Faults: plan, Namespaces: []soft.NamespaceConfig{{Backend: f, BlockSize: stormBlock}}}
				stormOnce(t, cfg, uint64(seed), ops)
				t.Log(plan)
			})
		}
	}
}

func stormOnce(t *testing.T, cfg soft.Config, seed uint64, ops int) {
	tr := start(t, 0, cfg)
	c := bringUp(t, tr, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: stormDepth})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := tr.Alloc(stormDepth * stormMost * stormBlock)
	if err != nil {
		t.Fatal(err)
	}
	s := &stormRun{TB: t, c: c, q: q, ns: ns, mem: mem, rng: rand.New(rand.NewPCG(seed, 3)), jobs: make([]stormJob, stormDepth)}
	for i := range stormDepth {
		s.idle = append(s.idle, i)
	}
	for range stormBlocks {
		s.may = append(s.may, [][]byte{make([]byte, stormBlock)})
	}
	s.run(ops)
	st := q.Stats()
	t.Logf("seed %d: %d requests, %d failed, %d resets, %+v", seed, st.Submitted, s.failed, s.resets, st)
	if s.failed == 0 || st.Duplicate == 0 {
		t.Errorf("the storm did not blow: %+v", st)
	}
	if err := mem.Free(); err != nil {
		t.Error(err)
	}
}
