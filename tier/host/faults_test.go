package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// TestBroken: after a failure of unknown outcome the memory says what is lost and
// takes no more work.
func TestBroken(t *testing.T) {
	for name, hurt := range map[string]func(*world){
		"copy":  func(w *world) { w.ram.broken = errInjected },
		"drive": func(w *world) { w.disk.lost = true },
		"reset": func(w *world) {
			w.disk.noReset = errInjected
			w.disk.fault = func(*Request) (error, bool) { return errInjected, true }
		},
	} {
		w := newWorld(t, "bypass", [3]int{2, 0, 4}, 3)
		base := w.array(t, 0, 20)
		buf := []byte("12345678")
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
		kept := w.Kept()
		if want := name != "copy"; be.Kept != want || (len(kept) > 0) != want {
			t.Errorf("%s: kept %v: %+v", name, be.Kept, kept)
		}
		if len(kept) > 0 && (kept[0].Name != "a0" || kept[0].Page != 1 || kept[0].InT2 || string(w.ram.frame(kept[0].Index)[:8]) != "12345678") {
			t.Errorf("%s: %+v", name, kept)
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
