package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// TestKernelAfterSalvage: a kernel of the program that comes once I/O has ended gets errors, and
// does not write to queues that are the drive's again. What is in T1 it finds.
func TestKernelAfterSalvage(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		var silent atomic.Bool
		w := newWorld(t, ctx, setup{policy: "bypass{t1=clock}", frames: 4, spares: 8, pages: 64, deadline: time.Second, faults: switched(&silent, soft.Fault{Drop: true})})
		ref := w.ref(t, 0, 64*page, 0)
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 4), gpu.Buffer{Bytes: []byte{1, 2, 3, 4}}))
		silent.Store(true)
		for try := uint64(0); ; try++ {
			var lost *gpu.AccessError
			if err := w.Elements(t.Context(), ref, tier.Read, pagesOf(10+try, 1), gpu.Buffer{Bytes: make([]byte, 1)}); !errors.As(err, &lost) || try > 5 {
				t.Fatalf("a read that is not answered: %v", err)
			}
			if s, err := w.Stats(t.Context()); err != nil || s.Device.LostSlots >= 1 {
				must(t, err)
				break
			}
		}
		s, err := w.Salvage(t.Context(), func() error {
			silent.Store(false)
			return w.drives[0].Controller.Reset()
		})
		if err != nil || len(s.Pages) != 4 {
			t.Fatalf("%v, %v", s, err)
		}
		m, err := ctx.AllocHost(1<<12, 0)
		must(t, err)
		clear(m.Bytes())
		for i, p := range []uint64{0, 1, 2, 3, 20, 21} {
			binary.LittleEndian.PutUint64(m.Bytes()[8*i:], p*page)
		}
		stream, err := ctx.NewStream()
		must(t, err)
		bounded, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		at := m.DevicePtr()
		must(t, errors.Join(w.Launch(stream, ref, tier.Read, 1, at, 6, at.Add(512), at.Add(1024)), stream.Wait(bounded)))
		if got := [4]byte(m.Bytes()[512:]); got != [4]byte{1, 2, 3, 4} {
			t.Errorf("what was in T1 is read as %v", got)
		}
		if failed := binary.LittleEndian.Uint32(m.Bytes()[1024:]); failed != 2 {
			t.Errorf("%d accesses failed, want those to the 2 pages that are in T3", failed)
		}
		for i := range 2 {
			if err := gpu.Status(binary.LittleEndian.Uint32(m.Bytes()[1024+160+4*i:])).Err(); !errors.Is(err, gpu.ErrNotSent) {
				t.Errorf("an access that needs a drive: %v", err)
			}
		}
		must(t, errors.Join(stream.Close(), m.Close()))
		must(t, errors.Join(w.Close(), w.drives[0].Close()))
	})
}
