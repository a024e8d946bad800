package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

const testPage = 64

var policies = []string{"bypass", "tier-order", "random", "gmt-reuse{vtd-direct=8,k=1,fit-every=64}",
	"gmt-reuse{t2copy=keep,vtd-direct=8}", "tier-order{t1=lru,t2=lru,t2copy=keep}"}

var sizes = [][3]int{{1, 0, 2}, {1, 1, 2}, {2, 1, 3}, {4, 3, 4}, {5, 1, 32}, {16, 32, 64}}

type world struct {
	*Memory
	ram  *ram
	disk *disk
}

func newWorld(t *testing.T, spec string, size [3]int, seed uint64) *world {
	t.Helper()
	s, err := placement.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := newRAM(testPage, size[0], size[1]+size[2])
	d := newDisk(r, seed)
	m, err := New(r, d, Options{PageSize: testPage, T1: size[0], T2: size[1], Spares: size[2], Policy: s, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.broken == nil {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		}
	})
	return &world{m, r, d}
}

func (w *world) array(t *testing.T, id int, pages uint64) placement.Page {
	t.Helper()
	base, err := w.NewArray(id, fmt.Sprintf("a%d", id), pages)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

const perPage = testPage / 8

// batchOf makes a batch of random elements and the buffer for it.
func batchOf(rng *rand.Rand, base placement.Page, elements int, op tier.Op) (*Batch, []int) {
	n := 1 + rng.IntN(40)
	b := &Batch{Op: op, Lanes: 1 + rng.IntN(MaxLanes)}
	seen := map[int]bool{}
	var which []int
	for range n {
		e := min(rng.IntN(elements), rng.IntN(elements))
		if op == tier.Write && seen[e] {
			continue
		}
		seen[e] = true
		b.Spans = append(b.Spans, Span{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8, At: int64(len(which) * 8)})
		which = append(which, e)
	}
	b.Buffer.Bytes = make([]byte, 8*len(which))
	return b, which
}

// TestMemory: random batches, with faults and without, against a model in memory.
func TestMemory(t *testing.T) {
	for _, spec := range policies {
		for _, size := range sizes {
			for _, failing := range []float64{0, 0.03} {
				t.Run(fmt.Sprintf("%s/%v/%v", spec, size, failing), func(t *testing.T) { history(t, spec, size, failing) })
			}
		}
	}
}

func history(t *testing.T, spec string, size [3]int, failing float64) {
	const pages = 48
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, spec, size, seed)
	w.disk.failing, w.disk.timeouts = failing, 0.3
	base := w.array(t, 3, pages)
	rng := rand.New(rand.NewPCG(seed, 1))
	want := make([]uint64, pages*perPage)
	steps := 400
	if testing.Short() {
		steps = 100
	}
	for step := range steps {
		switch op := []tier.Op{tier.Read, tier.Read, tier.Write, tier.Prefetch, tier.Overwrite}[rng.IntN(5)]; op {
		case tier.Overwrite:
			overwrite(t, w, rng, base, want)
		default:
			step1(t, w, rng, base, want, op, uint64(step))
		}
		if rng.IntN(40) == 0 {
			if err := w.Flush(t.Context()); err != nil && failing == 0 {
				t.Fatal(err)
			}
		}
	}
	w.disk.failing = 0
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkDisk(t, w, 3, want)
	if c := w.Stats().Counters; failing > 0 && size[0] < 16 && steps > 100 && c.Errors == 0 {
		t.Error("no access failed")
	}
}

// step1 runs one batch and compares. Elements of accesses that failed keep their
// value: the error names the pages, as far as it can.
func step1(t *testing.T, w *world, rng *rand.Rand, base placement.Page, want []uint64, op tier.Op, version uint64) {
	t.Helper()
	b, which := batchOf(rng, base, len(want), op)
	for i := range which {
		binary.LittleEndian.PutUint64(b.Buffer.Bytes[i*8:], version<<32|uint64(which[i]))
	}
	sent := bytes.Clone(b.Buffer.Bytes)
	err := w.Run(t.Context(), b)
	failed := failedPages(t, err)
	for i, e := range which {
		got := binary.LittleEndian.Uint64(b.Buffer.Bytes[i*8:])
		switch {
		case failed[uint64(e/perPage)] && op == tier.Write:
			// One access of the page may have failed and another not: look.
			want[e] = reread(t, w, base, e, want[e], version<<32|uint64(e))
		case failed[uint64(e/perPage)]:
			if got != want[e] && got != binary.LittleEndian.Uint64(sent[i*8:]) {
				t.Fatalf("element %d of a failed read became %#x", e, got)
			}
		case op == tier.Write:
			want[e] = version<<32 | uint64(e)
		case op == tier.Read && got != want[e]:
			t.Fatalf("element %d is %#x, want %#x", e, got, want[e])
		}
	}
}

// reread reads an element without faults: it is one of two values.
func reread(t *testing.T, w *world, base placement.Page, e int, old, new uint64) uint64 {
	t.Helper()
	defer func(f float64) { w.disk.failing = f }(w.disk.failing)
	w.disk.failing = 0
	b := &Batch{Op: tier.Read, Buffer: Buffer{Bytes: make([]byte, 8)},
		Spans: []Span{{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8}}}
	if err := w.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got := binary.LittleEndian.Uint64(b.Buffer.Bytes)
	if got != old && got != new {
		t.Fatalf("element %d of a failed write is %#x, want %#x or %#x", e, got, old, new)
	}
	return got
}

func failedPages(t *testing.T, err error) map[uint64]bool {
	t.Helper()
	failed := map[uint64]bool{}
	var be *BatchError
	switch {
	case err == nil:
	case errors.As(err, &be):
		if be.Failed > MaxNamed {
			for p := range uint64(1000) {
				failed[p] = true
			}
		}
		for _, p := range be.Pages {
			failed[p.Page] = true
			if !errors.Is(p, errInjected) {
				t.Fatalf("an error that does not say why: %v", p)
			}
		}
	default:
		t.Fatal(err)
	}
	return failed
}

// overwrite writes a whole page, which needs no fetch.
func overwrite(t *testing.T, w *world, rng *rand.Rand, base placement.Page, want []uint64) {
	t.Helper()
	p := rng.IntN(len(want) / perPage)
	buf := make([]byte, testPage)
	for i := range perPage {
		binary.LittleEndian.PutUint64(buf[i*8:], rng.Uint64())
	}
	b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: buf}, Spans: []Span{{Page: base + placement.Page(p), Length: testPage}}}
	if len(failedPages(t, w.Run(t.Context(), b))) > 0 {
		return
	}
	for i := range perPage {
		want[p*perPage+i] = binary.LittleEndian.Uint64(buf[i*8:])
	}
}

func checkDisk(t *testing.T, w *world, id int, want []uint64) {
	t.Helper()
	for e, v := range want {
		b := w.disk.durable[pageKey{id, uint64(e / perPage)}]
		var got uint64
		if b != nil {
			got = binary.LittleEndian.Uint64(b[e%perPage*8:])
		}
		if got != v {
			t.Fatalf("after Close, T3 has %#x for element %d, want %#x", got, e, v)
		}
	}
}

// TestCounts: a batch of one span each counts what the simulator counts, and a
// batch of lanes counts one access per page among them.
func TestCounts(t *testing.T) {
	for _, spec := range policies {
		for _, size := range sizes {
			countLike(t, spec, size)
		}
	}
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 1)
	base := w.array(t, 0, 9)
	b := &Batch{Op: tier.Read, Lanes: 4, Buffer: Buffer{Bytes: make([]byte, 8)}}
	for _, p := range []placement.Page{1, 2, 1, 2, 1, 1, 1, 1, 3} {
		b.Spans = append(b.Spans, Span{Page: base + p, Length: 8})
	}
	if err := w.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if c := w.Stats().Counters; c.Accesses != 4 || c.T3Fetches != 3 || c.T1Hits != 1 {
		t.Errorf("%+v", c)
	}
}

func countLike(t *testing.T, spec string, size [3]int) {
	t.Helper()
	const pages = 48
	w := newWorld(t, spec, size, 9)
	base := w.array(t, 0, pages)
	pol, err := w.o.Policy.Build(placement.Env{T1Frames: size[0], T2Frames: size[1], Pages: pages, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := tier.New(tier.Config{Pages: pages, T1: pol.T1, T2: pol.T2, Placer: pol.Placer, KeepT2Copy: pol.KeepT2Copy})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		op := []tier.Op{tier.Read, tier.Write, tier.Prefetch}[rng.IntN(3)]
		b, _ := batchOf(rng, base, pages*perPage, op)
		b.Lanes = 1
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Spans {
			sim.Run([]tier.Access{tier.MakeAccess(s.Page, op)})
		}
	}
	if d := cmp.Diff(sim.Counters(), w.Stats().Counters); d != "" {
		t.Errorf("%s %v (-simulator +live):\n%s", spec, size, d)
	}
}

// TestTogether: goroutines share a memory; each owns some elements, so that what
// it reads is what it wrote, whatever the others do to the same pages.
func TestTogether(t *testing.T) {
	w := newWorld(t, "gmt-reuse{vtd-direct=8}", [3]int{3, 4, 8}, 2)
	base := w.array(t, 0, 20)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			mine := make([]uint64, 20*perPage)
			for range 300 {
				e := rng.IntN(20*perPage/4)*4 + g
				buf := make([]byte, 8)
				binary.LittleEndian.PutUint64(buf, rng.Uint64())
				b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: buf}, Spans: []Span{{Page: base + placement.Page(e/perPage), Offset: int32(e % perPage * 8), Length: 8}}}
				if rng.IntN(2) == 0 {
					b.Op = tier.Read
				}
				if err := w.Run(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				if got := binary.LittleEndian.Uint64(buf); b.Op == tier.Write {
					mine[e] = got
				} else if got != mine[e] {
					t.Errorf("element %d is %#x, want %#x", e, got, mine[e])
					return
				}
				if rng.IntN(30) == 0 {
					if err := w.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestPins: pinned pages stay in their frames, too many are refused with the size
// that would do, and after Unpin all is as before.
func TestPins(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{4, 2, 4}, 3)
	base := w.array(t, 0, 20)
	pages := []placement.Page{base + 1, base + 2, base + 3}
	frames, err := w.Pin(t.Context(), pages)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for range 100 {
		b, _ := batchOf(rng, base, 20*perPage, tier.Read)
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range pages {
		if w.plan.Frame(p) != frames[i] {
			t.Errorf("pinned page %d moved", p)
		}
	}
	var pe *PinError
	if _, err := w.Pin(t.Context(), []placement.Page{base + 9}); !errors.As(err, &pe) || pe.Needs != 5 || pe.Frames != 4 || !errors.Is(err, tier.ErrAllPinned) {
		t.Errorf("a fourth pin of four frames: %v", err)
	}
	if _, err := w.Pin(t.Context(), pages[:1]); err != nil {
		t.Errorf("pinned twice: %v", err)
	}
	if err := w.DropArray(base); err == nil {
		t.Error("an array with pinned pages is dropped")
	}
	w.Unpin(pages)
	w.Unpin(pages[:1])
	for _, p := range []placement.Page{base, base + 19} { // its first and last
		if _, err := w.Pin(t.Context(), []placement.Page{p}); err != nil {
			t.Fatal(err)
		}
		if err := w.DropArray(base); err == nil {
			t.Errorf("an array whose page %d is pinned is dropped", p-base)
		}
		w.Unpin([]placement.Page{p})
	}
	if len(w.pins) != 0 {
		t.Errorf("pins left: %v", w.pins)
	}
	if err := w.DropArray(base); err != nil {
		t.Error(err)
	}
}

// TestBroken: after a failure of unknown outcome the memory says what is lost and
// takes no more work.
func TestBroken(t *testing.T) {
	for name, hurt := range map[string]func(*world){
		"copy":  func(w *world) { w.ram.broken = errInjected },
		"drive": func(w *world) { w.disk.lost = true },
	} {
		w := newWorld(t, "bypass", [3]int{2, 0, 4}, 3)
		base := w.array(t, 0, 20)
		buf := make([]byte, 8)
		write := func(p placement.Page) error {
			return w.Run(t.Context(), &Batch{Op: tier.Write, Buffer: Buffer{Bytes: buf}, Spans: []Span{{Page: base + p, Length: 8}}})
		}
		if err := write(1); err != nil {
			t.Fatal(err)
		}
		hurt(w)
		var be *BrokenError
		if err := write(2); !errors.As(err, &be) || be.Lost < 1 || be.Some[0].Page != 1 {
			t.Errorf("%s: %v", name, err)
		}
		for _, err := range []error{write(3), w.Flush(t.Context()), w.Check(), w.DropArray(base), w.Close(t.Context())} {
			if !errors.As(err, &be) {
				t.Errorf("%s: then %v", name, err)
			}
		}
	}
}

// TestFlushSaysWhatItCouldNot: and a later flush writes it.
func TestFlushSaysWhatItCouldNot(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 3)
	base := w.array(t, 7, 20)
	for p := range placement.Page(4) {
		b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: []byte("12345678")}, Spans: []Span{{Page: base + p, Length: 8}}}
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	w.disk.failing = 1
	var fe *FlushError
	if err := w.Flush(t.Context()); !errors.As(err, &fe) || fe.Failed != 4 || fe.Err == nil || !errors.Is(err, errInjected) {
		t.Fatalf("%v", err)
	}
	w.disk.failing = 0
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p := range uint64(4) {
		if b := w.disk.durable[pageKey{7, p}]; b == nil || string(b[:8]) != "12345678" {
			t.Errorf("page %d is not durable", p)
		}
	}
	if n := w.Stats().Counters.FinalDirty; n != 0 {
		t.Errorf("%d dirty pages after a flush", n)
	}
}

// TestHalfPages: two spans of one half of a page do not make a whole one.
func TestHalfPages(t *testing.T) {
	w := newWorld(t, "bypass", [3]int{1, 0, 2}, 3)
	base := w.array(t, 7, 4)
	whole := bytes.Repeat([]byte{9}, testPage)
	write := func(p placement.Page, buf []byte, spans ...Span) {
		t.Helper()
		for i := range spans {
			spans[i].Page = base + p
		}
		if err := w.Run(t.Context(), &Batch{Op: tier.Write, Lanes: 2, Buffer: Buffer{Bytes: buf}, Spans: spans}); err != nil {
			t.Fatal(err)
		}
	}
	write(0, whole, Span{Length: testPage})
	write(1, bytes.Repeat([]byte{7}, testPage), Span{Length: testPage}) // page 0 is in T3 now
	write(0, make([]byte, testPage), Span{Length: testPage / 2}, Span{Length: testPage / 2})
	got := make([]byte, testPage)
	if err := w.Run(t.Context(), &Batch{Op: tier.Read, Buffer: Buffer{Bytes: got}, Spans: []Span{{Page: base, Length: testPage}}}); err != nil {
		t.Fatal(err)
	}
	if want := append(make([]byte, testPage/2), whole[testPage/2:]...); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

// TestFlushRetries: a flush tries again too, and is not stopped in the middle by its
// context: what has begun is ended.
func TestFlushRetries(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{8, 8, 8}, 3)
	w.o.Retries = 40
	base := w.array(t, 7, 14)
	for p := range placement.Page(14) {
		b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: []byte("12345678")}, Spans: []Span{{Page: base + p, Length: 8}}}
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	w.disk.failing, w.disk.timeouts, w.disk.delay = 0.5, 0.5, 5*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
	defer cancel()
	err := w.Flush(ctx)
	var fe *FlushError
	if !errors.As(err, &fe) && err != nil {
		t.Fatal(err)
	}
	if fe != nil && errors.Is(err, errInjected) && fe.Failed > 0 {
		t.Errorf("pages were given up: %v", err)
	}
	for {
		if err := w.Flush(t.Context()); err == nil {
			break
		} else if errors.As(err, &fe); fe.Failed > 0 {
			t.Fatalf("pages were given up: %v", err)
		}
	}
	if s := w.Stats(); s.Retries == 0 || s.Recoveries == 0 || s.Counters.FinalDirty != 0 {
		t.Errorf("%d retries, %d recoveries, %d dirty pages", s.Retries, s.Recoveries, s.Counters.FinalDirty)
	}
}

// TestNothingRunsOn: when a copy fails, no request is under way any more when the error
// comes back.
func TestNothingRunsOn(t *testing.T) {
	w := newWorld(t, "bypass", [3]int{1, 0, 4}, 3)
	base := w.array(t, 7, 4)
	write := func(p placement.Page) error {
		return w.Run(t.Context(), &Batch{Op: tier.Write, Buffer: Buffer{Bytes: make([]byte, 8)}, Spans: []Span{{Page: base + p, Length: 8}}})
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	w.disk.delay, w.ram.broken = 50*time.Millisecond, errInjected
	if err := write(1); err == nil {
		t.Error("a copy that fails is not told")
	}
	if n := w.disk.running.Load(); n != 0 {
		t.Errorf("%d requests run on", n)
	}
}

// TestNumbersAgain: page numbers of dropped arrays are used again, whole or in part.
func TestNumbersAgain(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 3)
	var bases []placement.Page
	for i := range 5 {
		bases = append(bases, w.array(t, i, 10))
	}
	for _, i := range []int{1, 3, 2} { // the last joins the three
		if err := w.DropArray(bases[i]); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.array(t, 9, 25); got != bases[1] {
		t.Errorf("25 pages begin at %d, not where 30 are free at %d", got, bases[1])
	}
	if got := w.array(t, 10, 5); got != bases[1]+25 {
		t.Errorf("5 pages begin at %d", got)
	}
	if got := w.array(t, 11, 5); got != 50 {
		t.Errorf("5 more begin at %d", got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, base := range []placement.Page{bases[0], bases[1], bases[4]} {
		step1(t, w, rng, base, make([]uint64, 10*perPage), tier.Read, 1)
	}
}

// TestRetries: with retries, a fault now and then is not seen.
func TestRetries(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{2, 2, 8}, 3)
	w.o.Retries = 12
	w.disk.failing = 0.1
	base := w.array(t, 7, 40)
	rng := rand.New(rand.NewPCG(3, 3))
	want := make([]uint64, 40*perPage)
	for i := range 200 {
		step1(t, w, rng, base, want, []tier.Op{tier.Read, tier.Write}[i%2], uint64(i))
	}
	if s := w.Stats(); s.Counters.Errors != 0 || s.Retries == 0 || s.Failed == 0 {
		t.Errorf("%d errors, %d retries of %d failures", s.Counters.Errors, s.Retries, s.Failed)
	}
}

// TestContext: a caller that gives up gets its context's error, and the table stays true.
func TestContext(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 3)
	w.disk.delay = time.Millisecond
	base := w.array(t, 7, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: make([]byte, 8)}}
	for p := range placement.Page(1000) {
		b.Spans = append(b.Spans, Span{Page: base + p, Length: 8})
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := w.Run(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := w.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a flush with an ended context: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Run(t.Context(), b); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestDrop: pages of a dropped array are nowhere, and are not written.
func TestDrop(t *testing.T) {
	for _, spec := range policies {
		w := newWorld(t, spec, [3]int{3, 4, 4}, 3)
		base := w.array(t, 7, 12)
		keep := w.array(t, 8, 12)
		rng := rand.New(rand.NewPCG(3, 3))
		want := make([]uint64, 12*perPage)
		for i := range 20 {
			b, _ := batchOf(rng, base, 12*perPage, []tier.Op{tier.Read, tier.Write}[i%2])
			if err := w.Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			step1(t, w, rng, keep, want, tier.Write, uint64(i))
		}
		for range 3 { // clean pages of it in T1 whose copies are in T2, where the policy keeps them
			for p := range placement.Page(6) {
				b := &Batch{Op: tier.Read, Buffer: Buffer{Bytes: make([]byte, 8)}, Spans: []Span{{Page: base + p, Length: 8}}}
				if err := w.Run(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.DropArray(base); err != nil {
			t.Fatal(err)
		}
		for p := base; p < base+12; p++ {
			if e := w.plan.Entry(p); e.State() != tier.Absent || e.Dirty() || e.T2Copy() {
				t.Errorf("%s: page %d of a dropped array is %v, dirty %v", spec, p, e.State(), e.Dirty())
			}
		}
		if err := w.Check(); err != nil {
			t.Error(err)
		}
		for i := range 20 {
			step1(t, w, rng, keep, want, tier.Read, uint64(i))
		}
	}
}

// TestRefusals: what reaches outside of anything is refused as a whole.
func TestRefusals(t *testing.T) {
	w := newWorld(t, "tier-order", [3]int{2, 2, 2}, 3)
	base := w.array(t, 7, 10)
	gone := w.array(t, 8, 10)
	if err := w.DropArray(gone); err != nil {
		t.Fatal(err)
	}
	buf := Buffer{Bytes: make([]byte, 16)}
	for _, b := range []Batch{
		{Op: tier.Overwrite, Buffer: buf}, {Op: 9, Buffer: buf}, {Op: tier.Read, Lanes: 33, Buffer: buf}, {Op: tier.Read, Lanes: -1, Buffer: buf},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base + 20, Length: 8}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: gone, Length: 8}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base, Length: 0}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base, Offset: -8, Length: 8}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base, Offset: testPage - 4, Length: 8}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base, Length: 8, At: 9}}},
		{Op: tier.Read, Buffer: buf, Spans: []Span{{Page: base, Length: 8, At: -1}}},
		{Op: tier.Write, Spans: []Span{{Page: base, Length: 8}}},
		{Op: tier.Write, Spans: []Span{{Page: base, Length: 8}}, Buffer: Buffer{Device: 4096, Size: 100}},
	} {
		if err := w.Run(t.Context(), &b); err == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
	for _, pages := range []uint64{0, placement.MaxPages} {
		if _, err := w.NewArray(9, "x", pages); err == nil {
			t.Errorf("an array of %d pages is accepted", pages)
		}
	}
	if err := w.DropArray(base + 1); err == nil {
		t.Error("half an array is dropped")
	}
	if c := w.Stats().Counters; c.Accesses != 0 {
		t.Errorf("%d accesses were made", c.Accesses)
	}
}
