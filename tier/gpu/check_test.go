package gpu_test

import (
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// TestCheckWalksStacks: Check finds free frames and slots that are in no stack, in two,
// or in one although a page has them.
func TestCheckWalksStacks(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 12, t2: 200, spares: 8, pages: 64})
		ref := w.ref(t, 0, 64*page, 0)
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 12), gpu.Buffer{Bytes: make([]byte, 12)}))
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(20, 14), gpu.Buffer{Bytes: make([]byte, 14)})) // page 0 goes to T2
		must(t, w.Forget(t.Context(), 20, 8))                                                                   // frames on a stack
		must(t, w.Check(t.Context()))
		for how := range gpu.Breaks {
			mend, says, err := w.Break(t.Context(), how)
			must(t, err)
			if err := w.Check(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", how, err)
			}
			must(t, mend())
			must(t, w.Check(t.Context()))
		}
		w.close(t)
	})
}
