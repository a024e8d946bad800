package gpu_test

import (
	"testing"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/host"
	"github.com/tritier/tritier/tier/layout"
)

// TestMoves: every page that crosses an edge is counted in the bucket of its time, and
// nothing else is.
func TestMoves(t *testing.T) {
	onGPU(t, func(t *testing.T, ctx *cuda.Context) {
		const delay = 20 * time.Millisecond
		faults := func(int) soft.Faults {
			return faultFunc(func(c *soft.CommandInfo) soft.Fault {
				if c.Queue == 0 {
					return soft.Fault{}
				}
				return soft.Fault{Delay: delay}
			})
		}
		w := newWorld(t, ctx, setup{policy: policies[1], frames: 4, t2: 3, spares: 8, pages: 64, faults: faults, parity: true})
		ref := w.ref(t, 0, 64*page, 0)
		moves := func() (n [layout.Edges]uint64, fast uint64) {
			s, err := w.Stats(t.Context())
			must(t, err)
			for edge := range s.Moves {
				for b, x := range s.Moves[edge] {
					n[edge] += x
					if edge < 2 && time.Duration(1)<<b < delay {
						fast += x
					}
				}
			}
			return n, fast
		}
		do := func(op tier.Op, first, n uint64) {
			t.Helper()
			must(t, w.Elements(t.Context(), ref, op, pagesOf(first, n), gpu.Buffer{Bytes: make([]byte, n)}))
		}
		expect := func(what string, want [layout.Edges]uint64) {
			t.Helper()
			if got, fast := moves(); got != want || fast != 0 {
				t.Errorf("%s: %v moved, want %v; %d of T3's in less than %v", what, got, want, fast, delay)
			}
			must(t, w.Check(t.Context()))
		}
		do(tier.Read, 0, 4)
		expect("four reads", [layout.Edges]uint64{4})
		do(tier.Write, 0, 4)
		expect("hits", [layout.Edges]uint64{4})
		do(tier.Read, 4, 3)
		expect("three demotions", [layout.Edges]uint64{7, 0, 3, 0})
		do(tier.Read, 0, 1)
		expect("a promotion for another demotion", [layout.Edges]uint64{7, 0, 4, 1})
		must(t, w.Flush(t.Context()))
		expect("a flush", [layout.Edges]uint64{7, 4, 4, 1})
		must(t, w.Flush(t.Context()))
		expect("nothing to flush", [layout.Edges]uint64{7, 4, 4, 1})
		if layout.Buckets != host.Buckets || layout.Edges != len(host.EdgeNames) {
			t.Error("the buckets are not those of package host")
		}
		w.close(t)
	})
}
