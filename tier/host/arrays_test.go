package host

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

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
