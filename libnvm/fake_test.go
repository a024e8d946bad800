package libnvm

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/libnvm/internal/mmio"
)

// fakeTransport is memory only: the test plays the controller by hand.
type fakeTransport struct {
	bar  []uint64
	regs Registers
	next uint64
	// scatter gives each page an address of its own, far from the last.
	scatter bool
	memory  []*Memory
	freed   int // pieces of memory that were given back
}

func newFake(t testing.TB) *fakeTransport {
	t.Helper()
	f := &fakeTransport{bar: make([]uint64, 32<<10/8), next: 1 << 33}
	regs, err := NewRegisters(unsafe.Slice((*byte)(unsafe.Pointer(&f.bar[0])), 32<<10))
	if err != nil {
		t.Fatal(err)
	}
	f.regs = regs
	return f
}

func (f *fakeTransport) Name() string         { return "fake" }
func (f *fakeTransport) Registers() Registers { return f.regs }

// Close detaches all memory, as transports do when they have closed the device.
func (f *fakeTransport) Close() error {
	var errs []error
	for _, m := range f.memory {
		errs = append(errs, m.Detach())
	}
	return errors.Join(errs...)
}

func (f *fakeTransport) Map([]byte) (*Memory, error) {
	return nil, &MapError{Transport: "fake", Reason: "there is no controller"}
}

func (f *fakeTransport) Alloc(n int) (m *Memory, err error) {
	pages := (n + PageSize - 1) / PageSize
	words := make([]uint64, (pages+1)*PageSize/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (PageSize - 1)
	b = b[skip : skip+pages*PageSize]
	gone := func() error { f.freed++; return nil }
	if f.scatter && pages > 1 {
		addrs := make([]uint64, pages)
		for i := range addrs {
			f.next += 3 * PageSize
			addrs[i] = f.next ^ uint64(i%2)<<40
		}
		m, err = NewChunkedMemory(b, PageSize, addrs, gone)
	} else {
		f.next += uint64(pages+1) * PageSize
		m, err = NewMemory(b, f.next, gone)
		f.next += uint64(pages+1) * PageSize
	}
	if err == nil {
		f.memory = append(f.memory, m)
	}
	return m, err
}

// at finds the memory at an address, a page at most, or returns nil.
func (f *fakeTransport) at(iova uint64, n int) []byte {
	for _, m := range f.memory {
		for p := 0; p < m.Len(); p += PageSize {
			if a := m.iova(p); iova >= a && iova+uint64(n) <= a+PageSize {
				o := p + int(iova-a)
				return m.buf[o : o+n]
			}
		}
	}
	return nil
}

// fataler is what testing.TB and rapid.T have in common.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// host is a queue pair without a controller behind it.
type host struct {
	t  fataler
	f  *fakeTransport
	c  *Controller
	q  *QueuePair
	ns *Namespace
	// the controller's side, moved by hand
	fetched, posted uint64
}

func newHost(t testing.TB, depth int) *host {
	t.Helper()
	f := newFake(t)
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{tr: f, regs: f.regs, cfg: cfg, queues: map[uint16]*QueuePair{}, maxTransfer: 64 << 10, stride: 4}
	c.info.ONCS = 0xffff
	h := &host{t: t, f: f, c: c, q: newQueuePair(c, 1, depth)}
	if err := h.q.allocate(QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := h.q.attach(); err != nil {
		t.Fatal(err)
	}
	h.ns = &Namespace{ID: 1, Blocks: 1 << 30, BlockSize: 512, ctrl: c, shift: 9, maxData: 128}
	return h
}

// seed puts all positions to the given lap, as if the queue had run that long.
func (h *host) seed(lap uint64) {
	q := h.q
	n := lap * uint64(q.depth)
	q.tail.count, q.head.count = n, n
	q.tail.phase, q.head.phase = phaseOf(n, q.depth), phaseOf(n, q.depth)
	q.sqHead, q.sqRung, q.cqRung = n, n, n
	q.nextTicket = Ticket(n) + 1
	h.fetched, h.posted = n, n
	for i := range int(q.depth) { // the lap before has left its phase tag
		e := (*cqe)(unsafe.Add(q.cq, i*cqeSize))
		mmio.Store32(&e.dw3, (q.head.phase^1)<<16)
	}
}

// read submits a read of one block without data of interest.
func (h *host) read(tag uint64) (Ticket, error) {
	if h.ns.ctrl == nil {
		return 0, errors.New("no namespace")
	}
	m := h.f.memory[0]
	return h.q.Submit(&Request{Op: OpRead, NS: h.ns, LBA: tag, Blocks: 1, Mem: m, Tag: tag})
}

// entry is a submission entry by its count.
func (h *host) entry(n uint64) *Command {
	return (*Command)(unsafe.Add(h.q.sq, n%uint64(h.q.depth)*sqeSize))
}

// fetch takes the next entry as the controller would.
func (h *host) fetch() Command {
	h.t.Helper()
	if h.fetched == h.q.sqRung {
		h.t.Fatal("nothing to fetch")
	}
	c := *h.entry(h.fetched)
	h.fetched++
	return c
}

// post writes a completion entry with the phase that its count has.
func (h *host) post(cid uint16, sqhd uint64, status Status) {
	d := uint64(h.q.depth)
	e := (*cqe)(unsafe.Add(h.q.cq, h.posted%d*cqeSize))
	e.dw0, e.dw1, e.sqhd, e.sqid = 0, 0, uint16(sqhd%d), h.q.id
	phase := uint32(h.posted/d)&1 ^ 1
	mmio.Store32(&e.dw3, uint32(cid)|phase<<16|uint32(status)<<17)
	h.posted++
}

// poll expects n completions.
func (h *host) poll(n int) []Completion {
	h.t.Helper()
	out := make([]Completion, 256)
	k := h.q.Poll(out)
	if k != n {
		h.t.Fatalf("%d completions, want %d (%s)", k, n, h.q.position())
	}
	return out[:n]
}

// sqDoorbell and cqDoorbell are what was rung last.
func (h *host) sqDoorbell() uint32 { return mmio.Load32(h.q.sqDB.p) }

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

const shortly = 5 * time.Millisecond
