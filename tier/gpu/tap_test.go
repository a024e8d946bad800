package gpu_test

import (
	"sync/atomic"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// curves are the times of a page of 4 KiB to the device, one by one and by a kernel, and
// to the host, in microseconds; those of more pages are so many times as long. A kernel's
// launch takes a thousandth of its time.
func curves(in, inKernel, out, outKernel float64) *copyeng.Calibration {
	c := &copyeng.Calibration{Version: copyeng.CalibrationVersion, Driver: "0.0"}
	for _, x := range []struct {
		d           copyeng.Direction
		one, kernel float64
	}{{copyeng.ToDevice, in, inKernel}, {copyeng.ToHost, out, outKernel}} {
		for _, bytes := range []int{copyeng.MinPage, page} {
			f := map[int]float64{copyeng.MinPage: 1e-3, page: 1}[bytes]
			c.Curves = append(c.Curves, copyeng.Curve{Direction: x.d.String(), Page: bytes, Pages: []int{1, 1000},
				Micros: map[copyeng.Path][]float64{copyeng.PathMemcpy: {f * x.one, 1000 * f * x.one}, copyeng.PathZeroCopy: {f * x.kernel, 1000 * f * x.kernel}}})
		}
	}
	return c
}

// tap stands before a software GPU. When armed, the next copy of a direction first has
// done what it was armed with.
type tap struct {
	*cudafake.GPU
	armed [2]atomic.Pointer[func() (cuda.Result, bool)]
}

func (p *tap) Call(s cuda.Symbol, args []uintptr) cuda.Result {
	for d, sym := range []cuda.Symbol{cuda.SymMemcpyHtoDAsync, cuda.SymMemcpyDtoHAsync} {
		if s != sym {
			continue
		}
		if f := p.armed[d].Swap(nil); f != nil {
			if r, answered := (*f)(); answered {
				return r
			}
		}
	}
	return p.GPU.Call(s, args)
}

// arm has f done at the next copy in a direction; it may answer the call.
func (p *tap) arm(d int, f func() (cuda.Result, bool)) { p.armed[d].Store(&f) }

// onTap runs f on a software GPU behind a tap.
func onTap(t *testing.T, f func(t *testing.T, ctx *cuda.Context, p *tap)) {
	t.Helper()
	if !gpufake.Available {
		t.Skip("the kernels on a CPU need cgo")
	}
	p := &tap{GPU: cudafake.New()}
	defer p.Close()
	gpufake.Register(p.GPU)
	d, err := cuda.OpenBackend(p)
	must(t, err)
	onDriver(t, d, func(t *testing.T, ctx *cuda.Context) { f(t, ctx, p) })
	if l, v := p.Leaks(), p.Violations(); len(l)+len(v) > 0 {
		t.Errorf("leaks: %q, violations: %q", l, v)
	}
}
