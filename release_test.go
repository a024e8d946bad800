package tritier_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/copyeng/pieces/piecesfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// TestFailedCloseFrees: a Close whose drives refuse what the store itself writes says so and frees
// all the same: the GPU's memory, the copy engine's goroutine, the drives' threads. Another does nothing.
func TestFailedCloseFrees(t *testing.T) {
	engines := map[string]tritier.Config{
		"gpu": {Engine: tritier.EngineGPU, Policy: "bypass{t1=clock}"}, "host": {Engine: tritier.EngineHost}, "host without a GPU": {Engine: tritier.EngineHost, GPU: "none"},
	}
	onFakeKernels(t, func(t *testing.T, fake *cudafake.GPU) {
		for engine, c := range engines {
			for what, op := range map[string]byte{"writes": opWrite, "flushes": byte(libnvm.OpFlush)} {
				t.Run(engine+" "+what, func(t *testing.T) { failedCloseFrees(t, fake, c, op) })
			}
		}
	})
}

func failedCloseFrees(t *testing.T, fake *cudafake.GPU, c tritier.Config, op byte) {
	f := &faultFunc{f: func(x *soft.CommandInfo) soft.Fault {
		if byte(x.Opcode) != op {
			return soft.Fault{}
		}
		return soft.Fault{Status: libnvm.StatusInternalError, DNR: true}
	}}
	engine, gpu, policy := c.Engine, c.GPU, c.Policy
	c = withFaults(f, "mem:8MiB")
	c.Engine, c.GPU = engine, gpu
	if policy != "" {
		c.Policy = policy
	}
	before := ours()
	m, a := faultyArray(t, c)
	if err := errors.Join(a.Write(t.Context(), 0, make([]uint64, a.Len())), m.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	f.on.Store(true)
	var refused *libnvm.StatusError
	if err := m.Close(t.Context()); !errors.As(err, &refused) || errors.Is(err, tritier.ErrNotClosed) {
		t.Errorf("the drive refuses, but Close: %v", err)
	}
	if l := fake.Leaks(); len(l) > 0 {
		t.Errorf("still there: %q", l)
	}
	await(t, func() bool { return ours() <= before })
	closeMemory(t, m)
}

// TestFailedFreeOnDevice: memory of the GPU that the driver does not take back costs a Close neither
// the store nor the rest of the GPU's.
func TestFailedFreeOnDevice(t *testing.T) {
	if !gpufake.Available {
		t.Skip("the kernels of the software GPU need cgo")
	}
	fake := cudafake.New()
	defer func() {
		if !t.Failed() { // as onGPU
			fake.Close()
		}
	}()
	copyfake.Register(fake)
	piecesfake.Register(fake)
	gpufake.Register(fake)
	defer tritier.UseBackend(fake)()
	store := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
	m, _, want := dirtyOnDevice(t, tritier.Config{Store: store})
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.FailNext(cuda.SymMemFree, cuda.InvalidValue, 1)
	if err := m.Close(t.Context()); !errors.Is(err, cuda.InvalidValue) || errors.Is(err, tritier.ErrNotClosed) {
		t.Errorf("the driver refuses, but Close: %v", err)
	}
	if l := fake.Leaks(); len(l) != 1 { // what it did not take back
		t.Errorf("still there: %q", l)
	}
	compareStored(t, tritier.Config{Store: store, T1: 8 * page, Buffers: 8 * page}, want)
	closeMemory(t, m)
}

// ours is the number of goroutines that run what a Memory has opened.
func ours() (n int) {
	buf := make([]byte, 1<<20)
	for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		for _, in := range []string{"tritier/copyeng.", "tritier/libnvm/soft.", "tritier/tier/gpu.", "tritier/bamio."} {
			if bytes.Contains(g, []byte(in)) {
				n++
				break
			}
		}
	}
	return n
}
