package host

import (
	"errors"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// TestFlushOverMuteDrive: a drive that answers nothing is asked a few times and no more, however many
// pages it has and however often is tried again. All of them are told, and those of the other drive
// written; the next flush tries anew.
func TestFlushOverMuteDrive(t *testing.T) {
	for _, retries := range []int{0, 2} {
		w, pages := dirtyWorld(t, retries)
		asked := map[uint64]int{}
		w.disk.fault = func(r *Request) (error, bool) {
			if r.Page%2 == 0 {
				return nil, false
			}
			asked[r.Page]++
			return errInjected, true
		}
		var lost *FlushError
		if err := w.Flush(t.Context()); !errors.As(err, &lost) || lost.Failed != pages/2 || lost.Err != nil || !errors.Is(err, errInjected) || !errors.Is(err, errSilent) {
			t.Errorf("%d retries: %v", retries, err)
		}
		tries := 0
		for _, n := range asked {
			tries += n
		}
		if w.disk.recovered != mostVain || tries < mostVain || tries > 2*mostVain { // two pages a set at most
			t.Errorf("%d retries: %d writes in vain and %d recoveries", retries, tries, w.disk.recovered)
		}
		if n := w.Stats().Counters.FinalDirty; n != uint64(pages/2) {
			t.Errorf("%d retries: %d dirty pages", retries, n)
		}
		w.disk.fault = nil
		if err := w.Close(t.Context()); err != nil || w.Stats().Counters.FinalDirty != 0 {
			t.Errorf("%d retries: then %v", retries, err)
		}
	}
}

// TestFlushGoesOn: pages that time out or are refused cost no others of a drive that writes some, or
// that answers.
func TestFlushGoesOn(t *testing.T) {
	for name, fault := range map[string]func(r *Request) (error, bool){
		"every other page times out": func(r *Request) (error, bool) {
			if r.Page%4 == 1 {
				return errInjected, true
			}
			return nil, false
		},
		"a drive refuses": func(r *Request) (error, bool) {
			if r.Page%2 == 1 {
				return errInjected, false
			}
			return nil, false
		},
	} {
		w, _ := dirtyWorld(t, 0)
		w.disk.fault = fault
		var lost *FlushError
		if err := w.Flush(t.Context()); !errors.As(err, &lost) || errors.Is(err, errSilent) {
			t.Errorf("%s: %v", name, err)
		}
		if want := map[string]int{"every other page times out": 10, "a drive refuses": 20}[name]; lost == nil || lost.Failed != want {
			t.Errorf("%s: %+v, want %d", name, lost, want)
		}
	}
}

// dirtyWorld is a memory of two drives with forty dirty pages, which a flush writes in small sets.
func dirtyWorld(t *testing.T, retries int) (w *world, pages int) {
	t.Helper()
	pages = 40
	w = newWorld(t, "tier-order", [3]int{20, 20, 4}, 3)
	w.o.Retries = retries
	base := w.array(t, 7, uint64(pages))
	for p := range placement.Page(pages) {
		b := &Batch{Op: tier.Write, Buffer: Buffer{Bytes: []byte("12345678")}, Spans: []Span{{Page: base + p, Length: 8}}}
		if err := w.Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Stats().Counters.FinalDirty; n != uint64(pages) {
		t.Fatalf("%d dirty pages", n)
	}
	return w, pages
}
