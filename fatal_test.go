package tritier_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm/soft"
)

// TestFatalDrive: a drive whose controller fails at a read, a write or a flush is reset, and the
// memory goes on: no call fails, and nothing that was written is lost.
func TestFatalDrive(t *testing.T) {
	const opFlush = 0
	for name, op := range map[string]byte{"reads": opRead, "writes": opWrite, "flushes": opFlush} {
		t.Run(name, func(t *testing.T) {
			nth := int32(3)
			if op == opFlush {
				nth = 1
			}
			var n atomic.Int32
			f := &faultFunc{f: func(c *soft.CommandInfo) soft.Fault {
				return soft.Fault{Fatal: byte(c.Opcode) == op && n.Add(1) == nth}
			}}
			c := withFaults(f, "mem:8MiB")
			c.Timeout = time.Second
			m, a := faultyArray(t, c)
			want := make([]uint64, a.Len())
			for i := range want {
				want[i] = uint64(i) * 5
			}
			if op == opRead { // alone: a write that is not answered has the drive reset
				if err := errors.Join(a.Write(t.Context(), 0, want), m.Flush(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			f.on.Store(true)
			if op != opRead {
				if err := a.Write(t.Context(), 0, want); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(a.Read(t.Context(), 0, make([]uint64, a.Len())), m.Flush(t.Context())); err != nil {
				t.Error(err)
			}
			f.on.Store(false)
			if n.Load() < nth {
				t.Errorf("only %d commands, none of which failed", n.Load())
			}
			if s := m.Stats(); s.Recoveries == 0 || op == opFlush && s.Recoveries != 1 {
				t.Errorf("%d recoveries are counted", s.Recoveries)
			}
			compare(t, a, want)
			closeMemory(t, m)
		})
	}
}
