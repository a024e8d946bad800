//go:build !race

package copyeng_test

import (
	"runtime"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
)

// Batches and waits of a queue that has warmed up allocate nothing. The calls
// are answered without the fake, which allocates. (The race detector has
// sync.Pool lose things, hence no such test under it.)
func TestCopyAllocatesNothing(t *testing.T) {
	// Below, nobody makes the context current on a thread that does not have it yet.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	answered := map[cuda.Symbol]bool{
		cuda.SymCtxSetCurrent: true, cuda.SymMemcpyHtoDAsync: true, cuda.SymMemcpyBatchAsyncV2: true, cuda.SymLaunchKernel: true,
		cuda.SymEventRecord: true, cuda.SymEventQuery: true, cuda.SymStreamQuery: true, cuda.SymStreamWaitEvent: true,
	}
	for _, p := range []copyeng.Path{
		copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathBatch2, copyeng.PathBatch4, copyeng.PathZeroCopy, copyeng.PathHybrid25, copyeng.PathHybrid50, copyeng.PathExchange,
	} {
		opts := copyeng.GPUOptions{Force: p}
		if p == copyeng.PathExchange {
			opts = exchanging(t, p)
		}
		g, tap := tappedGPU(t, opts)
		r := newRig(t, g, 4<<20)
		for _, n := range []uint32{1, 200} {
			in, out := r.batch(copyeng.ToDevice, 4096, straight(0, n)), r.batch(copyeng.ToHost, 4096, straight(500, n))
			var err error
			once := func() {
				if p == copyeng.PathExchange {
					_, err = r.queue.Exchange(in, out)
				} else {
					_, err = r.queue.Copy(in)
				}
				if err == nil {
					err = r.queue.Wait(t.Context())
				}
			}
			once() // makes events, streams and lists
			if err != nil {
				t.Fatal(err)
			}
			tap.set(func(s cuda.Symbol, _ []uintptr) (cuda.Result, bool) { return cuda.Success, answered[s] })
			if allocs := testing.AllocsPerRun(500, once); allocs > 0 || err != nil {
				t.Errorf("%s, %d pages: %v allocations for a batch and its wait, error %v", p, n, allocs, err)
			}
			tap.set(nil)
		}
	}
}
