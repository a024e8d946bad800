package gpu_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// TestParts: batches of many parts, of which some fail, move every byte but those of the
// pages that failed. What is copied beside a kernel must be of the part before and after.
func TestParts(t *testing.T) {
	t.Cleanup(gpu.SetStage(3 * page))
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		const pages, n = 41, 40*page - 100
		var broken atomic.Bool
		faults := func(int) soft.Faults {
			return faultFunc(func(c *soft.CommandInfo) soft.Fault {
				if c.Opcode == libnvm.OpRead && c.Queue != 0 && broken.Load() && c.LBA/uint64(c.Blocks)%5 == 2 {
					return soft.Fault{Status: libnvm.StatusInternalError}
				}
				return soft.Fault{}
			})
		}
		w := newWorld(t, ctx, setup{policy: policies[0], frames: 4, spares: 8, pages: pages, faults: faults})
		ref := w.ref(t, 0, pages*page, 0)
		want := make([]byte, n)
		fill(rand.New(rand.NewPCG(3, 9)), want)
		const first = 50
		must(t, w.Run(t.Context(), ref, tier.Write, first, n, gpu.Buffer{Bytes: want}))
		got := make([]byte, n)
		must(t, w.Run(t.Context(), ref, tier.Read, first, n, gpu.Buffer{Bytes: got}))
		if !bytes.Equal(got, want) {
			t.Error("a run in parts reads other bytes than another has written")
		}
		index := rand.New(rand.NewPCG(4, 4)).Perm(n)
		places := make([]uint64, n)
		for i, x := range index {
			places[i] = first + uint64(x)
		}
		scattered := make([]byte, n)
		must(t, w.Elements(t.Context(), ref, tier.Read, places[:7*page+9], gpu.Buffer{Bytes: scattered}))
		for i, x := range index[:7*page+9] {
			if scattered[i] != want[x] {
				t.Fatalf("element %d of those by index is %#x, want %#x", i, scattered[i], want[x])
			}
		}
		must(t, w.Flush(t.Context()))
		broken.Store(true)
		copy(got, slices.Repeat([]byte{0xee}, n))
		var ae *gpu.AccessError
		if err := w.Run(t.Context(), ref, tier.Read, first, n, gpu.Buffer{Bytes: got}); !errors.As(err, &ae) || ae.Failed < 3 || ae.Failed > pages/4 {
			t.Fatalf("a run of which every fifth page fails: %v", err)
		}
		kept := 0
		for p := range pages - 1 { // the last one is beyond the run
			low, high := max(p*page-first, 0), min((p+1)*page-first, n)
			switch part := got[low:high]; {
			case bytes.Equal(part, want[low:high]):
			case len(bytes.Trim(part, "\xee")) == 0:
				kept++
			default:
				t.Errorf("page %d of a run that failed in part holds neither its bytes nor what was there", p)
			}
		}
		if kept != ae.Failed {
			t.Errorf("%d pages keep what was there, %d failed", kept, ae.Failed)
		}
		broken.Store(false)
		w.close(t)
	})
}
