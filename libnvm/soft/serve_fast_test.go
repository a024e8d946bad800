package soft_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// wrapped is memory that the controller does not know to be memory.
type wrapped struct{ soft.Backend }

// twin is a controller whose thread the test has borrowed, with queues that the
// test uses with plain stores.
type twin struct {
	s      *soft.Controller
	server *soft.Server
	stores [][]byte
	data   *libnvm.Memory // pages for data, and PRP lists behind them
	pages  []uint64       // addresses that commands take as PRPs: data, the store itself, bad ones
	queues []*twinQueue
}

// twinQueue is one queue pair of a twin, with what its host knows.
type twinQueue struct {
	l           libnvm.Layout
	tail, head  uint32 // of the submission queue; head as the last completion says
	seen, freed uint32 // completions noticed and given back, counted
}

const (
	twinStore = 256 << 10
	twinPages = 16
	twinLists = 2
)

func newTwin(t *testing.T, cfg soft.Config, depths []int) *twin {
	w := &twin{}
	for i := range 3 {
		m, err := soft.NewMemory(twinStore)
		if err != nil {
			t.Fatal(err)
		}
		w.stores = append(w.stores, m.Bytes())
		n := soft.NamespaceConfig{Backend: m, BlockSize: 512, ReadOnly: i == 1}
		if i == 2 {
			n = soft.NamespaceConfig{Backend: wrapped{m}, BlockSize: 4096}
		}
		cfg.Namespaces = append(cfg.Namespaces, n)
	}
	w.s = start(t, 0, cfg)
	c := bringUp(t, w.s, libnvm.Config{})
	var err error
	if w.data, err = w.s.Alloc((twinPages + twinLists) * 4096); err != nil {
		t.Fatal(err)
	}
	own, err := w.s.Map(w.stores[0][:4*4096]) // a command may move the store onto itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Free(); err != nil {
			t.Error(err)
		}
	})
	for i := range twinPages + twinLists + 1 { // the last lies behind the region
		iova, _ := w.data.IOVA(0)
		w.pages = append(w.pages, iova+uint64(i)*4096)
	}
	for i := range 4 {
		iova, _ := own.IOVA(i * 4096)
		w.pages = append(w.pages, iova)
	}
	for _, d := range depths {
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: d})
		if err != nil {
			t.Fatal(err)
		}
		w.queues = append(w.queues, &twinQueue{l: q.Layout()})
		w.pages = append(w.pages, q.Layout().SQIOVA) // a read may change the commands to come
	}
	w.pages = append(w.pages, 0, ^uint64(4095))
	if w.server, err = w.s.Lend(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Return(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// ring is the queue's memory: entries and completions.
func (q *twinQueue) ring() (sq, cq []byte) {
	return unsafe.Slice((*byte)(q.l.SQ), q.l.Depth*64), unsafe.Slice((*byte)(q.l.CQ), q.l.Depth*16)
}

// notice counts new completions.
func (q *twinQueue) notice() {
	for depth := uint32(q.l.Depth); q.seen-q.freed < depth; q.seen++ {
		e := unsafe.Slice((*uint32)(unsafe.Add(q.l.CQ, q.seen%depth*16)), 4)
		if libnvmLoad(&e[3])>>16&1 != q.seen/depth&1^1 {
			return
		}
		q.head = e[2] & 0xffff
	}
}

// pick takes one of some values.
func pick[T any](r *rand.Rand, v ...T) T { return v[r.IntN(len(v))] }

// randomPRP is an address that is mostly good.
func (w *twin) randomPRP(r *rand.Rand) uint64 {
	p := w.pages[r.IntN(twinPages)]
	if r.IntN(8) == 0 {
		p = w.pages[r.IntN(len(w.pages))]
	}
	return p
}

// randomCommand is anything that a host may write, mostly plain reads and writes.
func (w *twin) randomCommand(r *rand.Rand) libnvm.Command {
	c := libnvm.Command{Opcode: pick(r, libnvm.OpRead, libnvm.OpRead, libnvm.OpWrite), CID: uint16(r.Uint32()), NSID: 1}
	rarely := func() bool { return r.IntN(12) == 0 }
	if rarely() {
		c.Opcode = pick(r, libnvm.OpFlush, libnvm.OpCompare, libnvm.OpWriteZeroes, libnvm.OpDataset, 0x55)
	}
	if rarely() {
		c.Flags = pick[uint8](r, 1, 0x40, 0x80)
	}
	if r.IntN(4) == 0 {
		c.NSID = pick[uint32](r, 0, 2, 2, 3, 3, 4, 1<<32-1)
	}
	const blocks = twinStore / 512
	lba := r.Uint64N(blocks)
	if rarely() {
		lba = pick[uint64](r, blocks-1, blocks, blocks-8, 1<<55, 1<<63, 1<<64-1)
	}
	c.CDW10, c.CDW11 = uint32(lba), uint32(lba>>32)
	c.CDW12 = pick(r, r.Uint32N(8), r.Uint32N(17), 7, 15, 40)
	if rarely() {
		c.CDW12 = pick[uint32](r, 0xffff, 0x7fff, 255)
	}
	if r.IntN(3) == 0 {
		c.CDW12 |= r.Uint32() &^ 0xffff
	}
	c.PRP1 = w.randomPRP(r) + pick[uint64](r, 0, 0, 0, 512, 4092, 2048, 2, 4*r.Uint64N(1024))
	switch c.PRP2 = w.randomPRP(r); r.IntN(4) {
	case 0:
		c.PRP2 = c.PRP1&^4095 + 4096
	case 1:
		c.PRP2 = w.pages[twinPages+r.IntN(twinLists)] + pick[uint64](r, 0, 8, 4088, 4)
	}
	if rarely() {
		c.PRP2 += pick[uint64](r, 4, 512)
	}
	c.MPTR, c.CDW13, c.CDW15 = r.Uint64(), r.Uint32(), r.Uint32()
	return c
}

// step does the same random things as a host to w as to any twin with the same r.
func (w *twin) step(r *rand.Rand) bool {
	lists := unsafe.Slice((*uint64)(unsafe.Pointer(&w.data.Bytes()[twinPages*4096])), twinLists*512)
	for range 64 {
		lists[r.IntN(len(lists))] = w.randomPRP(r) + pick[uint64](r, 0, 0, 0, 0, 0, 0, 0, 8)
	}
	for _, q := range w.queues {
		depth := uint32(q.l.Depth)
		free := depth - 1 - (q.tail+depth-q.head)%depth
		for range r.Uint32N(free + 1) {
			*(*libnvm.Command)(unsafe.Add(q.l.SQ, q.tail*64)) = w.randomCommand(r)
			q.tail = (q.tail + 1) % depth
		}
		if r.IntN(10) == 0 {
			q.l.SQDoorbell.Ring(pick(r, depth, 1<<31, r.Uint32N(depth)))
			w.server.Serve(0)
		}
		q.l.SQDoorbell.Ring(q.tail)
	}
	busy := w.server.Serve(0)
	for _, q := range w.queues {
		depth := uint32(q.l.Depth)
		q.notice()
		q.freed += r.Uint32N(q.seen - q.freed + 1) // room may run out
		if r.IntN(10) == 0 {
			q.l.CQDoorbell.Ring(pick(r, depth, 1<<31, r.Uint32N(depth)))
			w.server.Serve(0)
			q.notice()
		}
		q.l.CQDoorbell.Ring(q.freed % depth)
	}
	return busy
}

// diff says where two twins differ.
func (w *twin) diff(v *twin) string {
	if a, b := w.s.Stats(), v.s.Stats(); a != b {
		return fmt.Sprintf("statistics %+v and %+v", a, b)
	}
	for i, q := range w.queues {
		sq, cq := q.ring()
		sq2, cq2 := v.queues[i].ring()
		if !bytes.Equal(cq, cq2) {
			return fmt.Sprintf("completions of queue %d:\n%x\n%x", i, cq, cq2)
		}
		if !bytes.Equal(sq, sq2) {
			return fmt.Sprintf("entries of queue %d", i)
		}
	}
	for i := range w.stores {
		if !bytes.Equal(w.stores[i], v.stores[i]) {
			return fmt.Sprintf("store of namespace %d", i+1)
		}
	}
	if !bytes.Equal(w.data.Bytes(), v.data.Bytes()) {
		return "memory of the host"
	}
	return ""
}

// TestFastPathIsTheSame: with and without the fast path, a controller does the
// same to whatever a host does: same completions in the same order with the same
// SQ heads, same statuses, same statistics, same bytes in all memory.
func TestFastPathIsTheSame(t *testing.T) {
	for i, x := range []struct {
		cfg    soft.Config
		depths []int
	}{
		{soft.Config{}, []int{64, 8, 3}},
		{soft.Config{MaxTransfer: 4096}, []int{16}},
		{soft.Config{MaxTransfer: -1}, []int{2, 200}},
	} {
		seed := uint64(i + 1)
		t.Logf("seed %d", seed)
		fast, general := newTwin(t, x.cfg, x.depths), newTwin(t, x.cfg.General(), x.depths)
		fill := rand.New(rand.NewPCG(seed, 0))
		for k := range fast.stores {
			for j := range fast.stores[k] {
				fast.stores[k][j] = byte(fill.Uint32())
			}
			copy(general.stores[k], fast.stores[k])
		}
		if fmt.Sprint(fast.pages) != fmt.Sprint(general.pages) {
			t.Fatal("the twins' memory has different addresses")
		}
		for round := range uint64(1200) {
			a := fast.step(rand.New(rand.NewPCG(seed, round+1)))
			b := general.step(rand.New(rand.NewPCG(seed, round+1)))
			if d := fast.diff(general); d != "" || a != b {
				t.Fatalf("round %d: busy %v and %v, different: %s", round, a, b, d)
			}
		}
		st := fast.s.Stats()
		t.Logf("%+v, %d by the fast path", st, fast.s.Fast())
		if fast.s.Fast() < st.Commands/8 || general.s.Fast() != 0 || st.Errors == 0 || st.DoorbellRange == 0 || st.DoorbellBackward == 0 {
			t.Error("the test did not reach what it is for")
		}
	}
}

// TestFastPathAllocatesNothing, nor does the general path.
func TestFastPathAllocatesNothing(t *testing.T) {
	for _, cfg := range []soft.Config{{}, soft.Config{}.General()} {
		w := newTwin(t, cfg, []int{64})
		q := w.queues[0]
		n := testing.AllocsPerRun(100, func() {
			for i := range uint32(32) {
				*(*libnvm.Command)(unsafe.Add(q.l.SQ, q.tail*64)) = libnvm.Command{Opcode: libnvm.OpRead, NSID: 1, PRP1: w.pages[0], CDW10: i}
				q.tail = (q.tail + 1) % 64
			}
			q.l.SQDoorbell.Ring(q.tail)
			w.server.Serve(0)
			q.l.CQDoorbell.Ring(q.tail)
		})
		if st := w.s.Stats(); n != 0 || st.Commands < 3200 || st.Errors != 0 {
			t.Errorf("%v allocations for 32 commands; %+v", n, st)
		}
	}
}
