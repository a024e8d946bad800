package bench_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier/bench"
)

// TestBench measures on a GPU, if there is one, with small arrays unless RATES is set,
// and prints what it finds. Sums and pages are compared.
func TestBench(t *testing.T) {
	ctx := device(t)
	c := bench.Config{GPU: ctx, Hits: 256 << 20, Faults: 128 << 20, T1: 32 << 20, Runs: 3, Warps: []int{1, 32}, Each: 100}
	if os.Getenv("RATES") != "" {
		c = bench.Config{GPU: ctx}
	}
	registers(t, ctx)
	for name, measure := range map[string]func(context.Context, bench.Config) ([]bench.Result, error){"hits": bench.Hits, "faults": bench.Faults} {
		t.Run(name, func(t *testing.T) {
			list, err := measure(t.Context(), c)
			if err != nil {
				t.Error(err)
			}
			for _, r := range list {
				t.Logf("%-36s %8.2f G%s/s  ratio %.2f  (%v to %v)  %d accesses, %d compactions in %v", r.Name, r.Rate()/1e9, r.Unit, r.Ratio, r.Fastest, r.Slowest, r.Accesses, r.Compactions, r.Compacting)
			}
		})
	}
}

// TestVerify: what kernels read is right, and counted exactly, in all ways that they read.
func TestVerify(t *testing.T) {
	if err := bench.Verify(t.Context(), bench.Config{GPU: device(t), T1: 32 << 20}); err != nil {
		t.Error(err)
	}
}

// device is the GPU, without which a test is left out, unless REQUIRE asks for one.
func device(t *testing.T) *cuda.Context {
	d, err := cuda.Open()
	if err != nil && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ctx.Close() })
	return ctx
}

// registers prints what the compiler gave the kernels: how many warps fit hangs on it.
func registers(t *testing.T, ctx *cuda.Context) {
	hits, faults, err := bench.Functions(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, k := range append(hits, faults...) {
		n, err := k.Attribute(cuda.FunctionRegisters)
		local, err2 := k.Attribute(cuda.FunctionLocalBytes)
		if err != nil || err2 != nil {
			t.Error(err, err2)
		}
		t.Logf("%s: %d registers, %d bytes of local memory", k, n, local)
	}
}
