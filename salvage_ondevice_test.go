package tritier_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// mute is a drive that from fall on answers no command of its I/O queues until it is reset, which
// shows in the Identify that follows.
type mute struct {
	silent, again atomic.Bool
	last          atomic.Int32 // if not 0: the reset that does not work any more, as none after it
	resets        atomic.Int32
	dropped       atomic.Int32 // writes after a reset that were not answered
	written       func()       // of each write after a reset, if not nil
}

func (m *mute) fall(again bool) {
	m.again.Store(again)
	m.silent.Store(true)
}

// Command implements soft.Faults.
func (m *mute) Command(c *soft.CommandInfo) soft.Fault {
	const identify = 6
	if c.Queue == 0 {
		if c.Opcode == identify && m.silent.Load() {
			if n := m.resets.Add(1); m.last.Load() != 0 && n >= m.last.Load() {
				return soft.Fault{Status: libnvm.StatusInternalError, DNR: true}
			}
			m.silent.Store(m.again.Load())
		}
		return soft.Fault{}
	}
	if m.written != nil && m.resets.Load() > 0 && byte(c.Opcode) == opWrite {
		m.written()
	}
	if m.resets.Load() > 0 && m.silent.Load() && byte(c.Opcode) == opWrite {
		m.dropped.Add(1)
	}
	return soft.Fault{Drop: m.silent.Load()}
}

// mutedArray is a memory of two drives where kernels decide, with an array of which all
// pages are dirty, in T1 and in T2.
func mutedArray(t *testing.T, drives []*mute) (m *tritier.Memory, want []uint64, stored tritier.Config) {
	t.Helper()
	dir := t.TempDir()
	var store []string
	for i := range drives {
		store = append(store, "file:"+filepath.Join(dir, string(rune('a'+i)))+"?size=8MiB")
	}
	c := tritier.Config{Store: strings.Join(store, ","), Create: true, PageSize: page, T1: 60 * page, T2: 60 * page, Buffers: 16 * page, Timeout: 2 * time.Second,
		Engine: tritier.EngineGPU, Policy: "tier-order{t1=clock,t2=fifo}", Faults: func(i int) soft.Faults { return drives[i] }}
	m = openGPU(t, c)
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 100*page/8-7)
	if err != nil {
		t.Fatal(err)
	}
	want = make([]uint64, a.Len())
	for i := range want {
		want[i] = uint64(i)*7 + 1
	}
	if err := a.Write(t.Context(), 0, want); err != nil {
		t.Fatal(err)
	}
	if s := m.Stats(); s.Counters.Demotions == 0 || s.Counters.Writebacks != 0 {
		t.Fatalf("not in both tiers: %+v", s.Counters)
	}
	return m, want, tritier.Config{Store: c.Store, T1: 8 * page, Buffers: 8 * page}
}

// TestCloseResetsMuteDrive: what a drive does not take before it was reset is written then, from
// T1 and T2, whichever drives are silent.
func TestCloseResetsMuteDrive(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, silent := range [][]int{{1}, {0, 1}} {
			drives := []*mute{{}, {}}
			m, want, stored := mutedArray(t, drives)
			for _, i := range silent {
				drives[i].fall(false)
			}
			if err := m.Close(t.Context()); err != nil {
				t.Errorf("drives %v: %v", silent, err)
			}
			if s := m.Stats(); s.Recoveries != 1 || s.Flushed < 100 {
				t.Errorf("drives %v: %d recoveries, %d pages flushed", silent, s.Recoveries, s.Flushed)
			}
			compareStored(t, stored, want)
		}
	})
}

func compareStored(t *testing.T, stored tritier.Config, want []uint64) {
	t.Helper()
	again := open(t, stored)
	b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, b, want)
	closeMemory(t, again)
}

// TestCloseEndsOnMuteDrive: a drive that stays silent after a reset ends Close in time, with the pages
// that it lacks; those of the other drive are stored.
func TestCloseEndsOnMuteDrive(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		drives := []*mute{{}, {}}
		m, want, stored := mutedArray(t, drives)
		drives[1].fall(true)
		begun := time.Now()
		var lost *tritier.FlushError
		if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed != 50 {
			t.Errorf("%v", err)
		}
		if n, took := drives[1].dropped.Load(), time.Since(begun); took > 60*time.Second || n == 0 || n > 130 {
			t.Errorf("%d writes in vain, %v", n, took)
		}
		closeMemory(t, m)
		drives[1].silent.Store(false)
		if right := pagesStored(t, stored, want); right < 50 {
			t.Errorf("%d pages are stored", right)
		}
	})
}

// pagesStored counts the pages that begin as they should.
func pagesStored(t *testing.T, stored tritier.Config, want []uint64) (right int) {
	t.Helper()
	again := open(t, stored)
	b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]uint64, len(want))
	if err := b.Read(t.Context(), 0, got); err != nil {
		t.Fatal(err)
	}
	for p := 0; p < len(got); p += page / 8 {
		if got[p] == want[p] {
			right++
		}
	}
	closeMemory(t, again)
	return right
}

// TestCloseBesideDeadDrive: a drive that cannot be reset, at first or after it was silent again,
// costs its own pages, and those of the other are stored.
func TestCloseBesideDeadDrive(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, last := range []int32{1, 2} {
			drives := []*mute{{}, {}}
			m, want, stored := mutedArray(t, drives)
			for _, d := range drives {
				d.fall(false)
			}
			drives[0].again.Store(true)
			drives[0].last.Store(last)
			var lost *tritier.FlushError
			var reset *volume.ResetError
			err := m.Close(t.Context())
			if !errors.As(err, &lost) || lost.Failed != 50 || !errors.As(err, &reset) || reset.Member != 0 {
				t.Errorf("dead at reset %d: %v", last, err)
			}
			if s := m.Stats(); s.Recoveries != 1 || s.Flushed < 50 {
				t.Errorf("dead at reset %d: %d recoveries, %d pages flushed", last, s.Recoveries, s.Flushed)
			}
			_ = m.Close(t.Context()) // the dead drive's part of it has failed
			drives[0].last.Store(0)
			drives[0].silent.Store(false)
			if right := pagesStored(t, stored, want); right < 50 {
				t.Errorf("dead at reset %d: %d pages are stored", last, right)
			}
		}
	})
}

// TestCloseNamesAllThatIsLost: a drive that cannot be reset costs every page that is not written,
// also those that the flush had not come to.
func TestCloseNamesAllThatIsLost(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		drives := []*mute{{}}
		m, _, _ := mutedArray(t, drives)
		drives[0].fall(true)
		drives[0].last.Store(1)
		var lost *tritier.FlushError
		var reset *volume.ResetError
		if err := m.Close(t.Context()); !errors.As(err, &lost) || lost.Failed != 100 || !errors.As(err, &reset) {
			t.Errorf("%v", err)
		}
		_ = m.Close(t.Context())
	})
}

// TestCloseWaitsForWatch: who looks whether work has ended, and hangs, keeps a Close from ending
// I/O, and another goes on once that is over.
func TestCloseWaitsForWatch(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		drives := []*mute{{}}
		m, want, stored := mutedArray(t, drives)
		drives[0].fall(false)
		begun, over := make(chan struct{}, 1), make(chan struct{})
		watched := make(chan error, 1)
		go func() {
			watched <- m.Watch(context.Background(), bamio.WorkFunc(func() (bool, error) {
				begun <- struct{}{}
				<-over
				return true, nil
			}))
		}()
		<-begun
		if err := m.Close(t.Context()); !errors.Is(err, tritier.ErrNotClosed) {
			t.Errorf("beside a Watch: %v", err)
		}
		close(over)
		if err := <-watched; err != nil {
			t.Errorf("the Watch: %v", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("after the Watch: %v", err)
		}
		compareStored(t, stored, want)
	})
}

// TestSalvageGoesOn: a Close whose context ends while the CPU writes leaves the rest to the next
// Close; other calls are refused.
func TestSalvageGoesOn(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		drives := []*mute{{written: cancel}}
		m, want, stored := mutedArray(t, drives)
		drives[0].fall(false)
		if err := m.Close(ctx); !errors.Is(err, tritier.ErrNotClosed) || !errors.Is(err, context.Canceled) {
			t.Errorf("close: %v", err)
		}
		if err := m.Flush(t.Context()); !errors.Is(err, tritier.ErrClosed) {
			t.Errorf("flush: %v", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close again: %v", err)
		}
		compareStored(t, stored, want)
	})
}
