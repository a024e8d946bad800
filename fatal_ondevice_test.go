package tritier_test

import (
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
)

// TestFatalDriveOnDevice: a drive whose controller fails at a read, a write or a flush of a kernel is
// named, with what it reports and what to do, by every call that needs it. Close resets it, and
// nothing is lost but what a call has refused.
func TestFatalDriveOnDevice(t *testing.T) {
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for name, op := range map[string]byte{"reads": opRead, "writes": opWrite, "flushes": byte(libnvm.OpFlush)} {
			t.Run(name, func(t *testing.T) { fatalDriveOnDevice(t, op) })
		}
	})
}

func fatalDriveOnDevice(t *testing.T, op byte) {
	nth, n := int32(3), atomic.Int32{}
	if op == byte(libnvm.OpFlush) {
		nth = 1
	}
	f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
		return soft.Fault{Fatal: byte(c.Opcode) == op && n.Add(1) == nth}
	}}
	store := "file:" + filepath.Join(t.TempDir(), "bad") + "?size=8MiB"
	c := tritier.Config{Store: store, Timeout: 2 * time.Second, Policy: "bypass{t1=clock}", Faults: func(int) soft.Faults { return f }}
	m, a, want := dirtyOnDevice(t, c)
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.on.Store(op == opWrite)
	refused := map[uint64]bool{}
	for i := range want {
		want[i]++
	}
	says := func(what string, err error) {
		t.Helper()
		var batch *tritier.BatchError
		var flush *tritier.FlushError
		var lost *bamio.DriveError
		var fatal *libnvm.ControllerFatalError
		if !errors.As(err, &batch) && !errors.As(err, &flush) || !errors.As(err, &lost) || !errors.As(err, &fatal) || !strings.Contains(lost.Drive, "bad") ||
			!strings.Contains(err.Error(), "Close does that") {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := a.Write(t.Context(), 0, want)
	if op == opWrite {
		says("write", err)
		var batch *tritier.BatchError
		if errors.As(err, &batch) && batch.Failed == len(batch.Pages) {
			for _, p := range batch.Pages {
				refused[p.Page] = true
			}
		}
	} else if err != nil {
		t.Fatal(err)
	}
	f.on.Store(true)
	got := make([]uint64, len(want))
	if op != byte(libnvm.OpFlush) {
		says("read", a.Read(t.Context(), 0, got))
	}
	says("flush", m.Flush(t.Context()))
	says("read again", a.Read(t.Context(), 0, got))
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if s := m.Stats(); s.Recoveries != 1 || len(refused) > 4 {
		t.Errorf("%d recoveries, pages %v are refused", s.Recoveries, refused)
	}
	for i := range want {
		if refused[uint64(i*8/page)] {
			want[i]--
		}
	}
	compareStored(t, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page}, want)
}
