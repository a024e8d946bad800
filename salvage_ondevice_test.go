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
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/soft"
)

// mute is a drive that from fall on answers no command of its I/O queues until it is reset, which
// shows in the Identify that follows.
type mute struct {
	silent, again atomic.Bool
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
			m.resets.Add(1)
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
		again := open(t, stored)
		b, err := tritier.OpenArray[uint64](t.Context(), again, "a")
		if err != nil {
			t.Fatal(err)
		}
		got, right := make([]uint64, len(want)), 0
		if err := b.Read(t.Context(), 0, got); err != nil {
			t.Fatal(err)
		}
		for p := 0; p < len(got); p += page / 8 {
			if got[p] == want[p] {
				right++
			}
		}
		if right < 50 {
			t.Errorf("%d pages are stored", right)
		}
		closeMemory(t, again)
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
