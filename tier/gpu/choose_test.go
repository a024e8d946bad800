package gpu_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/layout"
)

// TestChooseMoves: with an H200's curves kernels move small pages, and large ones where
// warps enough fill the link; copy engines those that few warps wait for.
func TestChooseMoves(t *testing.T) {
	onTap(t, func(t *testing.T, ctx *cuda.Context, _ *tap) {
		h200, err := copyeng.Builtin()
		must(t, err)
		g, err := copyeng.OpenGPU(ctx, copyeng.GPUOptions{Calibration: h200, NoLaunch: true})
		must(t, err)
		for _, c := range []struct {
			page, inFlight int
			engine         bool
		}{
			{4 << 10, 1, false}, {4 << 10, 256, false}, {64 << 10, 1, false}, {64 << 10, 8, false}, {64 << 10, 32, false}, {64 << 10, 256, false},
			{256 << 10, 1, true}, {256 << 10, 64, false}, {2 << 20, 1, true}, {2 << 20, 8, true},
		} {
			for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
				got := gpu.ChooseMoves(g, d, c.page, c.inFlight)
				if got.CopyEngine != c.engine || !strings.Contains(got.Why, " us") || !strings.Contains(got.Why, "calibration given") {
					t.Errorf("%d pages of %d bytes %v: %v", c.inFlight, c.page, d, got)
				}
			}
		}
		if c := gpu.ChooseMoves(g, copyeng.ToDevice, 1000, 4); c.CopyEngine || !strings.Contains(c.Why, "do not say") {
			t.Errorf("a page size without curves: %v", c)
		}
		must(t, g.Close())
	})
}

// TestMovesByCurves: the curves decide for each direction by itself, and the counts say
// what happened.
func TestMovesByCurves(t *testing.T) {
	patient(t, 64)
	for name, c := range map[string]struct {
		curves   *copyeng.Calibration
		moves    string
		in, host bool // by the copy engine
	}{
		"neither":   {curves(1000, 1, 1000, 1), "", false, false},
		"in":        {curves(1, 1000, 1000, 1), gpu.MovesAuto, true, false},
		"out":       {curves(1000, 1, 1, 1000), "", false, true},
		"both":      {curves(1, 1000, 1, 1000), "", true, true},
		"kernel":    {curves(1, 1000, 1, 1000), gpu.MovesKernel, false, false},
		"requested": {curves(1000, 1, 1000, 1), gpu.MovesCopyEngine, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			onTap(t, func(t *testing.T, ctx *cuda.Context, _ *tap) {
				w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, moves: c.moves, curves: c.curves})
				in, host := w.Moves()[layout.ToDevice], w.Moves()[layout.ToHost]
				if in.CopyEngine != c.in || host.CopyEngine != c.host || in.Why == "" || (c.moves == gpu.MovesCopyEngine) != (in.Why == "asked for" && c.in) {
					t.Errorf("to the device by %v, to the host by %v", in, host)
				}
				history(t, w, 0, rand.New(rand.NewPCG(3, 3)))
				s := w.stats(t)
				for d, engine := range []bool{c.in, c.host} {
					kernel, by := s.Mover.Pages[d][layout.ByKernel], s.Mover.Pages[d][layout.ByCopyEngine]
					if engine && (kernel != 0 || by == 0) || !engine && (kernel == 0 || by != 0) {
						t.Errorf("direction %d: %d pages by kernels, %d by the copy engine", d, kernel, by)
					}
				}
				if busy := s.Mover.CPU > 0; busy != (c.in || c.host) {
					t.Errorf("%v of a processor", s.Mover.CPU)
				}
				w.close(t)
			})
		})
	}
	onTap(t, func(t *testing.T, ctx *cuda.Context, _ *tap) {
		_, err := gpu.Open(t.Context(), gpu.Options{GPU: ctx, Moves: "dma"})
		if err == nil || !strings.Contains(err.Error(), `moves "dma": want auto, kernel or copy-engine`) || !strings.Contains(err.Error(), "no drives") {
			t.Error(err)
		}
	})
}
