// Package nvmetest is the conformance suite of libnvm's transports: what the
// driver promises must hold over every transport and controller. Data is
// always compared, since some controllers complete a transfer to nowhere with
// success, and canaries around every buffer catch what was written beside it.
package nvmetest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// Options says what the controller under test can do. A part that is not asked
// for is skipped, visibly.
type Options struct {
	// NSID is the namespace to use; all its data is overwritten. Default 1. It
	// should have at least 32 MiB.
	NSID uint32
	// Config is used for bring-up; its time-outs should suit the controller.
	Config libnvm.Config
	// Queues is how many I/O queue pairs the controller must grant. Default 1.
	Queues int
	// DoorbellStride, if set, is the distance of doorbells to expect, in bytes.
	DoorbellStride int
	// CMB says that there is a controller memory buffer for submission queues.
	CMB bool
	// DoorbellEvents says that an invalid doorbell value raises an event.
	DoorbellEvents bool
	// PRPStatus is the status of a read whose second PRP has an offset. Default
	// PRP Offset Invalid.
	PRPStatus libnvm.Status
	// Stall makes the controller hold back the completions of I/O commands
	// until the returned function is called. Nil when that cannot be done.
	Stall func(testing.TB) (release func())
	// Aborts says that the controller aborts commands that are stalled.
	Aborts bool
	// Chains says that the controller takes transfers of more than 2 MiB, whose
	// PRP lists need several pages.
	Chains bool
	// FetchBeforeReset is for controllers that do not survive a reset while
	// there are commands that they have not fetched: QEMU 7.2 goes on fetching
	// during the reset and then uses a queue that it has freed. Requests then go
	// out with one doorbell, which such a controller fetches in one go, and the
	// reset comes after the first completion; the others are still outstanding.
	FetchBeforeReset bool
	// Seed of the random parts; they print it. Default 1.
	Seed uint64
}

// part is one test of the suite.
type part struct {
	name string
	run  func(*env)
	need func(*Options) string // why it is skipped, or ""
}

func always(*Options) string { return "" }

var parts = []part{
	{"Identify", testIdentify, always},
	{"Sizes", testSizes, always},
	{"Chains", testChains, func(o *Options) string { return unless(o.Chains, "no transfers above 2 MiB") }},
	{"Commands", testCommands, always},
	{"Statuses", testStatuses, always},
	{"Full", testFull, always},
	{"Wrap", testWrap, always},
	{"Doorbells", testDoorbells, always},
	{"Depths", testDepths, always},
	{"ManyQueues", testManyQueues, always},
	{"DeleteQueues", testDeleteQueues, always},
	{"Reset", testReset, always},
	{"ResetQueue", testResetQueue, always},
	{"Features", testFeatures, always},
	{"Logs", testLogs, always},
	{"Random", testRandom, always},
	{"Memory", testMemory, always},
	{"CMB", testCMB, func(o *Options) string { return unless(o.CMB, "no controller memory buffer") }},
	{"Events", testEvents, func(o *Options) string { return unless(o.DoorbellEvents, "no events for doorbells") }},
	{"Timeout", testTimeout, func(o *Options) string { return unless(o.Stall != nil, "commands cannot be stalled") }},
	{"Abort", testAbort, func(o *Options) string {
		return unless(o.Stall != nil && o.Aborts, "stalled commands cannot be aborted")
	}},
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// Names lists the parts that run with these options and those that are
// skipped, so that a caller can check the count.
func Names(o Options) (run, skipped []string) {
	for _, p := range parts {
		if p.need(&o) == "" {
			run = append(run, p.name)
		} else {
			skipped = append(skipped, p.name)
		}
	}
	return run, skipped
}

// Run runs the suite over one transport, which open makes and cleans up. Each
// part brings the controller up anew.
func Run(t *testing.T, open func(testing.TB) libnvm.Transport, o Options) {
	if o.NSID == 0 {
		o.NSID = 1
	}
	o.Queues = max(o.Queues, 1)
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.PRPStatus == 0 {
		o.PRPStatus = libnvm.StatusPRPOffsetInvalid
	}
	tr := open(t)
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			if why := p.need(&o); why != "" {
				t.Skip(why)
			}
			p.run(newEnv(t, tr, &o))
		})
	}
}

// env is what a part works with.
type env struct {
	testing.TB
	tr  libnvm.Transport
	o   *Options
	c   *libnvm.Controller
	ns  *libnvm.Namespace
	rng *rand.Rand
	pat *rand.ChaCha8 // of data: it fills memory fast, also under the race detector
}

func newEnv(t *testing.T, tr libnvm.Transport, o *Options) *env {
	t.Helper()
	e := &env{TB: t, tr: tr, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6e766d65)), pat: patternSource(o.Seed)}
	c, err := libnvm.Open(tr, o.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if err := c.Dump(t.Output()); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error("close: ", err)
		}
	})
	e.c = c
	e.ns, err = c.Namespace(o.NSID)
	e.must(err)
	return e
}

// must ends the test on an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// queue makes a queue pair.
func (e *env) queue(depth int) *libnvm.QueuePair {
	e.Helper()
	q, err := e.c.CreateQueuePair(libnvm.QueueConfig{Depth: depth})
	e.must(err)
	return q
}

// canary fills what must not be written: whole pages of it are compared at once.
const canary = 0xc5

var canaries = bytes.Repeat([]byte{canary}, libnvm.PageSize)

// paint makes all of b canaries.
func paint(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, canaries):]
	}
}

// painted reports whether all of b is canaries.
func painted(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(canaries))
		if !bytes.Equal(b[:n], canaries[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// buffer is memory whose bytes are canaries until they are used.
func (e *env) buffer(bytes int) *libnvm.Memory {
	e.Helper()
	m, err := e.tr.Alloc(bytes)
	e.must(err)
	paint(m.Bytes())
	e.Cleanup(func() {
		// Runs before the controller is closed; a part that leaves commands
		// behind frees its memory itself.
		if err := m.Free(); err != nil {
			e.Error("free: ", err)
		}
	})
	return m
}

// pattern is n random bytes.
func (e *env) pattern(n int) []byte {
	b := make([]byte, n)
	e.pat.Read(b)
	return b
}

// patternSource is a source of random data.
func patternSource(seed uint64) *rand.ChaCha8 {
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	return rand.NewChaCha8(s)
}

// intact checks that everything of m but [off, off+n) is canaries.
func (e *env) intact(m *libnvm.Memory, off, n int) {
	e.Helper()
	if b := m.Bytes(); !painted(b[:off]) || !painted(b[off+n:]) {
		e.Fatalf("something beside the buffer [%d, %d) was overwritten", off, off+n)
	}
}

// write stores data at lba, from offset off of a buffer with canaries.
func (e *env) write(q *libnvm.QueuePair, lba uint64, data []byte, off int) {
	e.Helper()
	m, err := e.tr.Alloc(off + len(data))
	e.must(err)
	copy(m.Bytes()[off:], data)
	e.must(q.Do(&libnvm.Request{Op: libnvm.OpWrite, NS: e.ns, LBA: lba, Blocks: e.blocks(len(data)), Mem: m, Offset: off}))
	if !bytes.Equal(m.Bytes()[off:off+len(data)], data) {
		e.Fatal("a write changed its own buffer")
	}
	e.must(m.Free())
}

// expect reads at lba to offset off of a buffer with canaries and compares.
func (e *env) expect(q *libnvm.QueuePair, lba uint64, data []byte, off int) {
	e.Helper()
	const margin = 2 * libnvm.PageSize
	m, err := e.tr.Alloc(off + len(data) + margin)
	e.must(err)
	paint(m.Bytes())
	e.must(q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: lba, Blocks: e.blocks(len(data)), Mem: m, Offset: off}))
	if got := m.Bytes()[off : off+len(data)]; !bytes.Equal(got, data) {
		e.Fatalf("%d bytes at LBA %d to offset %d: the data differs from byte %d", len(data), lba, off, firstDifference(got, data))
	}
	e.intact(m, off, len(data))
	e.must(m.Free())
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

func (e *env) blocks(bytes int) uint64 { return uint64(bytes / e.ns.BlockSize) }

// drain polls until n requests are done, and fails the test when it takes too long.
func (e *env) drain(q *libnvm.QueuePair, n int) []libnvm.Completion {
	e.Helper()
	var all []libnvm.Completion
	buf := make([]libnvm.Completion, 16)
	for end := time.Now().Add(30 * time.Second); len(all) < n; {
		k := q.Poll(buf[:min(len(buf), n-len(all))])
		all = append(all, buf[:k]...)
		if k == 0 {
			time.Sleep(20 * time.Microsecond)
			if time.Now().After(end) {
				e.Fatalf("%d of %d requests done after 30 s", len(all), n)
			}
		}
	}
	return all
}
