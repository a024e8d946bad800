package tritier_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// refusals are faults: every page's first read, and the first write, are refused
// while on.
type refusals struct {
	dnr    bool
	seen   sync.Map // blocks that were read
	writes atomic.Int32
}

func (r *refusals) fault(c *soft.CommandInfo) soft.Fault {
	refused := soft.Fault{Status: libnvm.StatusInternalError, DNR: r.dnr}
	switch byte(c.Opcode) {
	case opRead:
		if _, seen := r.seen.LoadOrStore(c.LBA, true); !seen {
			return refused
		}
	case opWrite:
		if r.writes.Add(1) == 1 {
			return refused
		}
	}
	return soft.Fault{}
}

// refusedArray is a memory where kernels decide, with an array of twelve pages of which the
// last four are in T1, all clean or all dirty, and a drive that begins to refuse.
func refusedArray(t *testing.T, retries int, dnr, dirty bool) (*tritier.Memory, *tritier.Array[uint64], []uint64, *faultFunc) {
	t.Helper()
	r := &refusals{dnr: dnr}
	f := &faultFunc{f: r.fault}
	c := withFaults(f, "mem:8MiB")
	c.GPU, c.Engine, c.Policy, c.Retries = "", tritier.EngineGPU, "bypass{t1=clock}", retries
	m := openGPU(t, c)
	a, err := tritier.NewArray[uint64](t.Context(), m, "a", 12*page/8)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint64, a.Len())
	for i := range want {
		want[i] = uint64(i)*5 + 3
	}
	if err := errors.Join(a.Write(t.Context(), 0, want), m.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if dirty {
		if err := a.Write(t.Context(), 8*page/8, want[8*page/8:]); err != nil {
			t.Fatal(err)
		}
	}
	f.on.Store(true)
	return m, a, want, f
}

// TestRetriesOnDevice: what a drive refuses once costs no batch call an access, and is counted,
// unless no retries are wanted or the drive says that they are of no use.
func TestRetriesOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for _, x := range []struct {
			retries    int
			dnr, dirty bool
		}{{0, false, false}, {0, false, true}, {-1, false, false}, {-1, false, true}, {0, true, false}, {0, true, true}} {
			for _, call := range []string{"gather", "scatter", "read", "write", "pin"} {
				m, a, want, f := refusedArray(t, x.retries, x.dnr, x.dirty)
				before := m.Stats().Retries
				err := batchCall(t, m, a, want, call, x.dirty)
				retried := m.Stats().Retries - before
				var batch *tritier.BatchError
				switch again := x.retries == 0 && !x.dnr; {
				case again && (err != nil || retried == 0 || retried > 40):
					t.Errorf("%s, %+v: %d tries again, %v", call, x, retried, err)
				case !again && (!errors.As(err, &batch) || batch.Failed == 0 || retried != 0):
					t.Errorf("%s, %+v: %d tries again, %v", call, x, retried, err)
				}
				f.on.Store(false)
				if err := m.Check(); err != nil {
					t.Errorf("%s, %+v: %v", call, x, err)
				}
				compare(t, a, want)
				closeMemory(t, m)
			}
		}
	})
}

// batchCall has pages come that are not in T1, which drives out those that are. It changes
// no element.
func batchCall(t *testing.T, m *tritier.Memory, a *tritier.Array[uint64], want []uint64, call string, dirty bool) error {
	t.Helper()
	const each = page / 8
	var index, values []uint64
	for p := range uint64(8) {
		for i := range uint64(40) { // more than a report names, of each page
			index, values = append(index, p*each+i), append(values, want[p*each+i])
		}
	}
	got := make([]uint64, len(index))
	switch call {
	case "gather":
		err := a.Gather(t.Context(), index, got)
		for i := range got {
			if err == nil && got[i] != values[i] {
				t.Errorf("element %d is %d, not %d", index[i], got[i], values[i])
				break
			}
		}
		return err
	case "scatter":
		return a.Scatter(t.Context(), index, values)
	case "read":
		return a.Read(t.Context(), 0, make([]uint64, 8*each))
	case "write":
		if dirty {
			return a.Write(t.Context(), 0, want[:8*each]) // whole pages: only victims are written
		}
		return a.Write(t.Context(), 1, want[1:2*each-1])
	}
	pin, err := a.Pin(t.Context(), 0, 2*each)
	if err == nil {
		err = pin.Unpin()
	}
	return err
}

// TestRetriesOfEndedCall: what a call tried again before its context ended counts, and it ends
// soon.
func TestRetriesOfEndedCall(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		m, a, want, f := refusedArray(t, 100, false, false)
		f.on.Store(false)
		f.f = func(*soft.CommandInfo) soft.Fault {
			return soft.Fault{Status: libnvm.StatusInternalError, Delay: 50 * time.Millisecond}
		}
		f.on.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Read(ctx, 0, make([]uint64, 8)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read that is refused for 5 s: %v", err)
		}
		if n := m.Stats().Retries; n == 0 || n > 40 {
			t.Errorf("%d tries again", n)
		}
		f.on.Store(false)
		compare(t, a, want)
		closeMemory(t, m)
	})
}
