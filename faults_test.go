package tritier_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// faultFunc is a function as soft.Faults, for commands of I/O queues while on.
type faultFunc struct {
	on atomic.Bool
	f  func(*soft.CommandInfo) soft.Fault
}

// Command implements soft.Faults.
func (f *faultFunc) Command(c *soft.CommandInfo) soft.Fault {
	if c.Queue == 0 || !f.on.Load() {
		return soft.Fault{}
	}
	return f.f(c)
}

const opRead, opWrite = 2, 1

func withFaults(f *faultFunc, store string) tritier.Config {
	return tritier.Config{Store: store, Create: true, PageSize: page, T1: 4 * page, Buffers: 16 * page, GPU: "none", Timeout: 2 * time.Second, Policy: "bypass",
		Faults: func(int) soft.Faults { return f }}
}

// TestLostCompletions: a drive that loses completions is reset, and the memory goes on:
// the accesses succeed on another try, and nothing that was written is lost.
func TestLostCompletions(t *testing.T) {
	for name, op := range map[string]byte{"reads": opRead, "writes": opWrite} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
				return soft.Fault{Drop: byte(c.Opcode) == op && n.Add(1) == 3}
			}}
			m, a := faultyArray(t, withFaults(f, "mem:8MiB"))
			want := make([]uint64, a.Len())
			for i := range want {
				want[i] = uint64(i) * 3
			}
			if err := a.Write(t.Context(), 0, want); err != nil {
				t.Fatal(err)
			}
			f.on.Store(true)
			if err := a.Read(t.Context(), 0, make([]uint64, a.Len())); err != nil {
				t.Error(err)
			}
			f.on.Store(false)
			compare(t, a, want)
			if s := m.Stats(); s.Recoveries == 0 {
				t.Errorf("nothing had to be recovered: %+v", s.Stats)
			}
			closeMemory(t, m)
		})
	}
}

// faultyArray opens a memory with an array of ten pages.
func faultyArray(t *testing.T, c tritier.Config) (*tritier.Memory, *tritier.Array[uint64]) {
	t.Helper()
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 10*page/8)
	if err != nil {
		t.Fatal(err)
	}
	return m, a
}

// TestGoneDrive: when a drive is gone the error counts every page that is lost, all
// calls end in time, and after Close the store can be opened again.
func TestGoneDrive(t *testing.T) {
	f := &faultFunc{f: func(*soft.CommandInfo) soft.Fault { return soft.Fault{Gone: true} }}
	c := withFaults(f, "file:"+filepath.Join(t.TempDir(), "s")+"?size=8MiB")
	m, a := faultyArray(t, c)
	four := make([]uint64, 4*page/8)
	if err := errors.Join(a.Write(t.Context(), 0, four), m.Flush(t.Context()), a.Write(t.Context(), 0, four)); err != nil {
		t.Fatal(err)
	}
	f.on.Store(true)
	err := a.Read(t.Context(), 4*page/8, four)
	var broken *tritier.BrokenError
	var batch *tritier.BatchError
	switch {
	case errors.As(err, &broken):
		if broken.Lost != 4 || len(broken.Some) != 4 {
			t.Errorf("4 dirty pages, but: %v", err)
		}
	case !errors.As(err, &batch):
		t.Errorf("a drive that is gone: %v", err)
	}
	if err := m.Flush(t.Context()); err == nil {
		t.Error("a flush to a drive that is gone")
	}
	f.on.Store(false)
	if err := m.Close(t.Context()); err == nil {
		t.Error("Close says nothing of what is lost")
	}
	if err := m.Close(t.Context()); err != nil {
		t.Logf("Close again: %v", err)
	}
	closeMemory(t, open(t, tritier.Config{Store: c.Store, T1: 4 * page, Buffers: 8 * page}))
}

// TestLostMetadata: a flush, or a write of the store's own, whose completion is lost
// ends in about the time-out, and the memory goes on.
func TestLostMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		op   byte
		sums bool
	}{"flush": {0, false}, "flush with checksums": {0, true}, "log": {opWrite, true}} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			f := &faultFunc{f: func(x *soft.CommandInfo) soft.Fault { return soft.Fault{Drop: byte(x.Opcode) == c.op && n.Add(1) == 1} }}
			cfg := withFaults(f, "file:"+filepath.Join(t.TempDir(), "s")+"?size=8MiB")
			cfg.Checksums = c.sums
			m, a := faultyArray(t, cfg)
			want := make([]uint64, a.Len())
			for i := range want {
				want[i] = uint64(i) * 5
			}
			f.on.Store(true)
			begun := time.Now()
			if err := errors.Join(a.Write(t.Context(), 0, want), m.Flush(t.Context())); err != nil {
				t.Error(err)
			}
			if n.Load() == 0 {
				t.Error("nothing was lost")
			}
			if s := m.Stats(); s.Recoveries != 1 {
				t.Errorf("%d recoveries are counted", s.Recoveries)
			}
			if d := time.Since(begun); d > 40*time.Second {
				t.Errorf("it took %v", d)
			}
			f.on.Store(false)
			compare(t, a, want)
			closeMemory(t, m)
		})
	}
}

// TestRetries: a status that says "try again" is not seen.
func TestRetries(t *testing.T) {
	var n atomic.Int32
	f := &faultFunc{f: func(*soft.CommandInfo) soft.Fault {
		if n.Add(1)%3 == 0 {
			return soft.Fault{Status: libnvm.StatusInternalError}
		}
		return soft.Fault{}
	}}
	c := withFaults(f, "mem:8MiB")
	c.Retries = 20
	m, a := faultyArray(t, c)
	f.on.Store(true)
	if err := errors.Join(a.Write(t.Context(), 0, make([]uint64, a.Len())), a.Read(t.Context(), 0, make([]uint64, a.Len()))); err != nil {
		t.Error(err)
	}
	f.on.Store(false)
	if s := m.Stats(); s.Retries == 0 {
		t.Error("nothing was tried again")
	}
	closeMemory(t, m)
}

// TestCloseInTime: a Close whose context has ended loses nothing and says what is not
// written; the next one writes it.
func TestCloseInTime(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
	m, a := faultyArray(t, tritier.Config{Store: store, Create: true, PageSize: page, T1: 4 * page, GPU: "none"})
	want := make([]uint64, a.Len())
	want[5] = 42
	if err := a.Scatter(t.Context(), []uint64{5}, []uint64{42}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var fe *tritier.FlushError
	if err := m.Close(ended); !errors.Is(err, tritier.ErrNotClosed) || !errors.As(err, &fe) || fe.Failed != 1 || fe.Pages[0].Page != 0 {
		t.Errorf("%v", err)
	}
	if err := m.DropArray(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("an array is dropped by a context that has ended: %v", err)
	}
	compare(t, a, want)
	closeMemory(t, m)
	again := open(t, tritier.Config{Store: store, T1: 4 * page, Buffers: 4 * page})
	b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, b, want)
}

// TestManyIndices: more than one call of the engine takes.
func TestManyIndices(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page})
	a, err := tritier.NewArray[uint32](t.Context(), m, "a", 200000)
	if err != nil {
		t.Fatal(err)
	}
	idx, val := make([]uint64, 150000), make([]uint32, 150000)
	for i := range idx {
		idx[i], val[i] = uint64(i), uint32(i)*7
	}
	got := make([]uint32, len(val))
	if err := errors.Join(a.Scatter(t.Context(), idx, val), a.Gather(t.Context(), idx, got)); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != val[i] {
			t.Fatalf("element %d is %d, want %d", i, v, val[i])
		}
	}
}

// TestHugeSizes are refused, and never a panic.
func TestHugeSizes(t *testing.T) {
	for _, n := range []tritier.Size{math.MaxUint64, 1 << 63, 1 << 50} {
		for _, set := range []func(*tritier.Config){func(c *tritier.Config) { c.T1 = n }, func(c *tritier.Config) { c.T2 = n }, func(c *tritier.Config) { c.Buffers = n }} {
			c := tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, GPU: "none"}
			set(&c)
			if m, err := tritier.Open(t.Context(), c); err == nil {
				t.Errorf("%+v is opened", c)
				closeMemory(t, m)
			}
		}
	}
}

// TestDropped: a handle of a dropped array answers with an error, also when its page
// numbers have become another array's, and calls under way keep it.
func TestDropped(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, T2: 4 * page})
	for range 20 {
		a, err := tritier.NewArray[uint64](t.Context(), m, "a", 3*page)
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = a.Write(context.Background(), 0, []uint64{77})
			}
			over <- err
		}()
		time.Sleep(time.Millisecond)
		if err := m.DropArray(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b, err := tritier.NewArray[uint64](t.Context(), m, "b", 3*page)
		if err != nil {
			t.Fatal(err)
		}
		var dropped *tritier.DroppedError
		if err := <-over; !errors.As(err, &dropped) {
			t.Errorf("%v", err)
		}
		_, pinErr := a.Pin(t.Context(), 0, 1)
		for _, err := range []error{a.Read(t.Context(), 0, make([]uint64, 1)), a.Prefetch(t.Context(), []uint64{0}), pinErr} {
			if !errors.As(err, &dropped) {
				t.Errorf("%v", err)
			}
		}
		compare(t, b, make([]uint64, b.Len()))
		if err := m.DropArray(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyArrays: page numbers of dropped arrays are used again.
func TestManyArrays(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, T2: 4 * page})
	for i := range 50 {
		a, err := tritier.NewArray[uint64](t.Context(), m, "a", uint64(1+i%5)*page)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint64, a.Len())
		if err := a.Read(t.Context(), 0, got); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != 0 {
				t.Fatal("a new array holds what another one had")
			}
			got[i] = 1
		}
		if err := errors.Join(a.Write(t.Context(), 0, got), m.Check(), m.DropArray(t.Context(), "a")); err != nil {
			t.Fatal(err)
		}
	}
}
