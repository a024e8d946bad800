package gpu_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
)

// TestAsyncErrors: an error of a batch's kernel that does not last is the error of that
// batch and of no other call.
func TestAsyncErrors(t *testing.T) {
	onFake(t, func(t *testing.T, fake *cudafake.GPU, ctx *cuda.Context) {
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64})
		ref := w.ref(t, 0, 64*page, 0)
		was, got := []byte{1, 2, 3, 4, 5, 6, 7, 8}, make([]byte, 8)
		must(t, w.Elements(t.Context(), ref, tier.Write, pagesOf(0, 8), gpu.Buffer{Bytes: was}))
		for what, call := range map[string]func() error{
			"elements": func() error { return w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 8), gpu.Buffer{Bytes: got}) },
			"run":      func() error { return w.Run(t.Context(), ref, tier.Read, 0, 8, gpu.Buffer{Bytes: got}) },
			"pin":      func() error { _, err := w.Pin(t.Context(), []uint64{1}); return err },
			"flush":    func() error { return w.Flush(t.Context()) },
		} {
			fake.FailAsync(cuda.Unknown)
			if err := call(); !errors.Is(err, cuda.Unknown) {
				t.Errorf("%s: %v", what, err)
			}
			must(t, w.Elements(t.Context(), ref, tier.Read, pagesOf(0, 8), gpu.Buffer{Bytes: got}))
			if !slices.Equal(got, was) {
				t.Errorf("after %s: %v", what, got)
			}
		}
		w.close(t)
	})
}
