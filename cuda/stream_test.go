//go:build linux

package cuda

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/tritier/tritier/internal/nap"
)

func TestStreams(t *testing.T) {
	s := newScript(t)
	c := s.open()
	var flags, priority uintptr
	s.answer(SymStreamCreateWithPriority, func(a []uintptr) Result {
		flags, priority = a[1], a[2]
		*at[uintptr](a[0]) = 0x77
		return Success
	})
	st := must(c.NewStream(WithPriority(-5)))(t)
	if flags != 1 || int32(priority) != -5 || st.Handle() != 0x77 || st.Context() != c {
		t.Errorf("stream %#x: flags %d, priority %d", st.Handle(), flags, int32(priority))
	}
	s.answer(SymCtxGetStreamPriorityRange, func(a []uintptr) Result {
		*at[int32](a[0]), *at[int32](a[1]) = 0, -5
		return Success
	})
	if least, greatest, err := c.StreamPriorities(); least != 0 || greatest != -5 || err != nil {
		t.Errorf("priorities %d to %d, %v", least, greatest, err)
	}
	w := c.WrapStream(0x88)
	s.owner[0x88] = c.handle
	must(w.Query())(t)
	if err := w.Close(); err != nil || s.count(SymStreamDestroy) != 0 {
		t.Errorf("a wrapped stream was destroyed: %v", err)
	}
	for handle, name := range map[uintptr]string{0: "legacy default", 1: "legacy default", 2: "thread's default", 0x42: "0x42"} {
		if got := c.WrapStream(handle).String(); !strings.Contains(got, name) {
			t.Errorf("stream %d is called %q", handle, got)
		}
	}
}

func TestWait(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, event := must(c.NewStream())(t), must(c.NewEvent(false))(t)
	for _, w := range []struct {
		sym  Symbol
		wait func(context.Context) error
	}{{SymStreamQuery, stream.Wait}, {SymEventQuery, event.Wait}} {
		var left atomic.Int64
		s.answer(w.sym, func([]uintptr) Result {
			if left.Add(-1) >= 0 {
				return NotReady
			}
			return Success
		})
		for _, n := range []int64{0, 1, 10, 2000} { // 2000 queries outlast the spinning
			left.Store(n)
			if err := w.wait(context.Background()); err != nil || left.Load() != -1 {
				t.Errorf("%s: after %d queries: %v, %d queries too many", w.sym, n, err, -1-left.Load())
			}
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		left.Store(0)
		if err := w.wait(ended); err != nil {
			t.Errorf("%s: done work and an ended context: %v", w.sym, err)
		}
		left.Store(math.MaxInt32)
		var d *DeadlineError
		if err := w.wait(ended); !errors.As(err, &d) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: an ended context: %v", w.sym, err)
		}
		best := time.Hour
		for range 50 {
			left.Store(math.MaxInt32)
			_ = errors.As(w.wait(ended), &d)
			best = min(best, d.Elapsed)
		}
		if best > shortSpin/2 {
			t.Errorf("%s: it took %v to see that the context has ended", w.sym, best)
		}
		for _, limit := range []time.Duration{20 * time.Microsecond, 3 * time.Millisecond} {
			longest := time.Duration(0) // a busy machine may begin to wait late, but not every time
			for range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				err := w.wait(ctx)
				cancel()
				if !errors.As(err, &d) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(d.Wait, "GPU 0") {
					t.Fatalf("%s: deadline after %v: %v", w.sym, limit, err)
				}
				longest = max(longest, d.Elapsed)
			}
			if limit > time.Millisecond && longest < limit/2 {
				t.Errorf("%s: deadline after %v: waited %v", w.sym, limit, longest)
			}
		}
		s.fail(w.sym, InvalidHandle)
		if err := w.wait(context.Background()); !errors.Is(err, InvalidHandle) {
			t.Errorf("%s: a failed query: %v", w.sym, err)
		}
	}
	s.answer(SymStreamQuery, func([]uintptr) Result { return NotReady })
	time.AfterFunc(time.Millisecond, func() { _ = stream.Close() })
	if err := stream.Wait(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("a stream that is closed meanwhile: %v", err)
	}
}

// TestWaitSeesTheErrorOfAnother: who waits on a stream that hangs learns that
// the context was lost elsewhere.
func TestWaitSeesTheErrorOfAnother(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream, event := must(c.NewStream())(t), must(c.NewEvent(false))(t)
	s.fail(SymStreamQuery, NotReady)
	s.fail(SymEventQuery, IllegalAddress)
	time.AfterFunc(2*time.Millisecond, func() { _, _ = event.Query() })
	if err := stream.Wait(context.Background()); !errors.Is(err, IllegalAddress) || !errors.Is(err, c.Err()) {
		t.Errorf("Wait: %v", err)
	}
}

// TestWaitIsPrompt measures from the end of the work to Wait's return. The
// machine may be busy, so the best of many counts.
func TestWaitIsPrompt(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream := must(c.NewStream())(t)
	best := time.Hour
	for range 300 {
		end := time.Now().Add(30 * time.Microsecond)
		s.answer(SymStreamQuery, func([]uintptr) Result {
			if time.Now().Before(end) {
				return NotReady
			}
			return Success
		})
		if err := stream.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(end))
	}
	if best > 20*time.Microsecond {
		t.Errorf("the end of the work was seen %v late", best)
	}
}

// TestNapsAreShort: a wait of half a millisecond must not take several.
func TestNapsAreShort(t *testing.T) {
	const length = 100 * time.Microsecond
	best := time.Hour
	for range 20 {
		start := time.Now()
		nap.For(length)
		best = min(best, time.Since(start))
	}
	if best < length || best > 5*length {
		t.Errorf("a nap of %v takes %v", length, best)
	}
}

func TestEvents(t *testing.T) {
	s := newScript(t)
	c := s.open()
	var flags []uintptr
	s.answer(SymEventCreate, func(a []uintptr) Result {
		flags = append(flags, a[1])
		*at[uintptr](a[0]) = uintptr(0x500 + len(flags))
		s.owner[uintptr(0x500+len(flags))] = c.handle
		return Success
	})
	start, end := must(c.NewEvent(true))(t), must(c.NewEvent(false))(t)
	if !slices.Equal(flags, []uintptr{0, 2}) {
		t.Errorf("flags %v", flags)
	}
	s.answer(SymEventElapsedTime, func(a []uintptr) Result {
		if a[1] != start.handle || a[2] != end.handle {
			return InvalidValue
		}
		*at[float32](a[0]) = 1.5
		return Success
	})
	if d, err := end.ElapsedSince(start); d != 1500*time.Microsecond || err != nil {
		t.Errorf("elapsed %v, %v", d, err)
	}
	s.fail(SymEventElapsedTime, NotReady)
	var e *Error
	if _, err := end.ElapsedSince(start); !errors.As(err, &e) || !errors.Is(err, NotReady) {
		t.Errorf("not ready: %v", err)
	}
	stream := must(c.NewStream())(t)
	var got []uintptr
	keep := func(a []uintptr) Result { got = slices.Clone(a); return Success }
	s.answer(SymEventRecord, keep)
	if err := end.Record(stream); err != nil || !slices.Equal(got, []uintptr{end.handle, stream.handle}) {
		t.Errorf("Record: %v, arguments %x", err, got)
	}
	s.answer(SymStreamWaitEvent, keep)
	if err := stream.WaitEvent(end); err != nil || !slices.Equal(got, []uintptr{stream.handle, end.handle, 0}) {
		t.Errorf("WaitEvent: %v, arguments %x", err, got)
	}
}

func TestCopiesAndMemsets(t *testing.T) {
	s := newScript(t)
	c := s.open()
	stream := must(c.NewStream())(t)
	buf := make([]byte, 64)
	host := uintptr(unsafe.Pointer(&buf[0]))
	var got []uintptr
	for _, o := range []struct {
		sym  Symbol
		do   func() error
		want []uintptr
		none func() error
	}{
		{SymMemcpyHtoDAsync, func() error { return stream.CopyToDevice(0x10, buf) }, []uintptr{0x10, host, 64},
			func() error { return stream.CopyToDevice(0x10, nil) }},
		{SymMemcpyDtoHAsync, func() error { return stream.CopyToHost(buf, 0x10) }, []uintptr{host, 0x10, 64},
			func() error { return stream.CopyToHost(nil, 0x10) }},
		{SymMemcpyDtoDAsync, func() error { return stream.CopyDevice(0x10, 0x20, 7) }, []uintptr{0x10, 0x20, 7},
			func() error { return stream.CopyDevice(0x10, 0x20, 0) }},
		{SymMemsetD8Async, func() error { return stream.Memset8(0x10, 0xff, 7) }, []uintptr{0x10, 0xff, 7},
			func() error { return stream.Memset8(0x10, 0xff, 0) }},
		{SymMemsetD32Async, func() error { return stream.Memset32(0x10, 0xdeadbeef, 7) }, []uintptr{0x10, 0xdeadbeef, 7},
			func() error { return stream.Memset32(0x10, 1, 0) }},
	} {
		s.answer(o.sym, func(a []uintptr) Result { got = slices.Clone(a); return Success })
		if err := o.do(); err != nil || !slices.Equal(got, append(o.want, stream.handle)) {
			t.Errorf("%s: %v, arguments %x", o.sym, err, got)
		}
		if err := o.none(); err != nil || s.count(o.sym) != 1 {
			t.Errorf("%s of nothing: %v", o.sym, err)
		}
		s.fail(o.sym, InvalidValue)
		if err := o.do(); !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), "0x10") {
			t.Errorf("%s: %v", o.sym, err)
		}
	}
}

func TestBatchSignatures(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing []Symbol
		sym     Symbol
		args    int
	}{
		{"13.0", nil, SymMemcpyBatchAsyncV2, 8},
		{"12.8", []Symbol{SymMemcpyBatchAsyncV2}, SymMemcpyBatchAsync, 9},
		{"12.4", []Symbol{SymMemcpyBatchAsyncV2, SymMemcpyBatchAsync}, SymMemcpyBatchAsync, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			for _, m := range c.missing {
				s.missing[m] = true
			}
			stream := must(s.open().NewStream())(t)
			b := &CopyBatch{Order: SourceAtAnyTime, OverlapCompute: true}
			b.Add(0x10, 0x20, 4)
			b.Add(0x30, 0x40, 8)
			var got []uintptr
			var attrs copyAttributes
			var index, fail uintptr
			s.answer(c.sym, func(a []uintptr) Result {
				got, attrs, index = slices.Clone(a), *at[copyAttributes](a[4]), *at[uintptr](a[5])
				if c.args == 9 {
					fail = *at[uintptr](a[7])
				}
				return Success
			})
			err := stream.CopyBatch(b)
			if c.args == 0 {
				var missing *MissingSymbolError
				if !errors.As(err, &missing) || missing.Symbol != SymMemcpyBatchAsync || s.count(c.sym) != 0 {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil || len(got) != c.args {
				t.Fatalf("%v, %d arguments", err, len(got))
			}
			if got[0] != uintptr(unsafe.Pointer(&b.Dst[0])) || got[1] != uintptr(unsafe.Pointer(&b.Src[0])) ||
				got[2] != uintptr(unsafe.Pointer(&b.Size[0])) || got[3] != 2 || got[6] != 1 || got[c.args-1] != stream.handle {
				t.Errorf("arguments %x", got)
			}
			if attrs != (copyAttributes{srcAccessOrder: 3, flags: 1}) || index != 0 || c.args == 9 && fail != math.MaxUint {
				t.Errorf("attributes %+v from copy %d, failIdx %d", attrs, index, fail)
			}
		})
	}
}

func TestBatchErrors(t *testing.T) {
	s := newScript(t)
	s.missing[SymMemcpyBatchAsyncV2] = true
	c := s.open()
	stream := must(c.NewStream())(t)
	b := &CopyBatch{}
	if err := stream.CopyBatch(b); err != nil || s.count(SymMemcpyBatchAsync) != 0 {
		t.Errorf("an empty batch: %v", err)
	}
	b.Add(0x10, 0x20, 4)
	b.Add(0x30, 0x40, 8)
	s.answer(SymMemcpyBatchAsync, func(a []uintptr) Result { *at[uintptr](a[7]) = 1; return InvalidValue })
	if err := stream.CopyBatch(b); !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), "copy 1 of a batch of 2") ||
		!strings.Contains(err.Error(), "8 bytes from 0x40 to 0x30") {
		t.Errorf("a copy that fails: %v", err)
	}
	s.fail(SymMemcpyBatchAsync, InvalidValue) // failIdx stays: no single copy is to blame
	if err := stream.CopyBatch(b); !strings.Contains(err.Error(), "a batch of 2 copies") {
		t.Errorf("a batch that fails: %v", err)
	}
	calls := s.count(SymMemcpyBatchAsync)
	for _, h := range []uintptr{0, 1} {
		if err := c.WrapStream(h).CopyBatch(b); !errors.Is(err, ErrLegacyStream) {
			t.Errorf("on stream %d: %v", h, err)
		}
	}
	for name, b := range map[string]*CopyBatch{
		"lengths": {Dst: []uint64{1, 2}, Src: []uint64{1}, Size: []uint64{1, 2}},
		"sizes":   {Dst: []uint64{1}, Src: []uint64{1}},
		"order":   {Dst: []uint64{1}, Src: []uint64{1}, Size: []uint64{1}, Order: 7},
	} {
		if err := stream.CopyBatch(b); !errors.Is(err, InvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.count(SymMemcpyBatchAsync) != calls {
		t.Error("the driver was called")
	}
	b.Reset()
	if len(b.Dst) != 0 || cap(b.Dst) < 2 {
		t.Error("Reset gives the memory away")
	}
}
