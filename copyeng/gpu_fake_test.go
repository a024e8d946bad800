package copyeng_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// Every path moves every page, there and back, also in batches that are split
// and whose lists go round the ring.
func TestPathsOverFake(t *testing.T) {
	for _, p := range []copyeng.Path{"", copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathBatch2, copyeng.PathBatch4, copyeng.PathZeroCopy,
		copyeng.PathHybrid25, copyeng.PathHybrid50} {
		t.Run("path="+string(p), func(t *testing.T) {
			g, _ := fakeGPU(t, copyeng.GPUOptions{Force: p})
			const page, n = 512, 40000 // three starts; lists of 16,384 pairs
			r := newRig(t, g, page*n)
			fill(r.host.Bytes(), 3)
			want := bytes.Clone(r.host.Bytes())
			for _, k := range []int{1, 2, 3, 59, 60, 61, 1000, n} {
				pairs := shuffled(n, uint64(k))[:k]
				if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, page, pairs)); err != nil {
					t.Fatal(err)
				}
				if err := wait(t, r.queue); err != nil {
					t.Fatal(err)
				}
				for _, x := range pairs {
					clear(r.host.Bytes()[int(x.Host)*page:][:page])
				}
				if _, err := r.queue.Copy(r.batch(copyeng.ToHost, page, pairs)); err != nil {
					t.Fatal(err)
				}
				if err := wait(t, r.queue); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(r.host.Bytes(), want) {
					t.Fatalf("%d pages did not come back", k)
				}
			}
		})
	}
}

// Lists of kernels that are still waiting must not be overwritten by later ones.
func TestListsOutliveTheirKernels(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{Force: copyeng.PathZeroCopy})
	const page, n = 512, 8192
	r := newRig(t, g, page*n)
	fill(r.host.Bytes(), 5)
	want := bytes.Clone(r.host.Bytes())
	f.DelayOps(2 * time.Millisecond)
	identity := make([]copyeng.Pair, n)
	for i := range identity {
		identity[i] = copyeng.Pair{Host: uint32(i), Device: uint32(i)}
	}
	for range 30 { // 30 lists of 64 KiB through a ring of 512 KiB
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, page, identity)); err != nil {
			t.Fatal(err)
		}
	}
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	clear(r.host.Bytes())
	perm := shuffled(n, 9)
	for k := 0; k < n; k += 500 { // small lists, each of its own
		if _, err := r.queue.Copy(r.batch(copyeng.ToHost, page, perm[k:min(n, k+500)])); err != nil {
			t.Fatal(err)
		}
	}
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	for _, x := range perm {
		if !bytes.Equal(r.host.Bytes()[int(x.Host)*page:][:page], want[int(x.Device)*page:][:page]) {
			t.Fatalf("host page %d has not device page %d", x.Host, x.Device)
		}
	}
}

// Exchange of unequal sides, larger than one launch.
func TestExchangeOverFake(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {5, 2000}, {2000, 5}, {0, 7}, {7, 0}, {0, 0}, {20000, 17000}} {
		g, _ := fakeGPU(t, copyeng.GPUOptions{})
		const page = 512
		nin, nout := c[0], c[1]
		r := newRig(t, g, page*uint64(nin+nout+1))
		fill(r.host.Bytes(), 11)
		all := shuffled(nin+nout, 13)
		in, out := all[:nin], all[nin:]
		// Plant known pages where out reads from, by a plain copy.
		plant := make([]copyeng.Pair, 0, nout)
		for _, x := range out {
			plant = append(plant, copyeng.Pair{Host: x.Host, Device: x.Device})
		}
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, page, plant)); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(r.host.Bytes())
		for _, x := range out {
			clear(r.host.Bytes()[int(x.Host)*page:][:page])
		}
		if _, err := r.queue.Exchange(r.batch(copyeng.ToDevice, page, in), r.batch(copyeng.ToHost, page, out)); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.host.Bytes(), want) {
			t.Fatalf("%v: the pages out did not come back", c)
		}
		for _, x := range in {
			clear(r.host.Bytes()[int(x.Host)*page:][:page])
		}
		if _, err := r.queue.Copy(r.batch(copyeng.ToHost, page, in)); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.host.Bytes(), want) {
			t.Fatalf("%v: the pages in did not arrive", c)
		}
	}
}

// An error of a copy in flight comes back from Wait, and being sticky from
// whatever is called after.
func TestAsynchronousErrorIsNotLost(t *testing.T) {
	for _, p := range []copyeng.Path{copyeng.PathMemcpy, copyeng.PathBatch2, copyeng.PathZeroCopy, copyeng.PathHybrid50} {
		g, f := fakeGPU(t, copyeng.GPUOptions{Force: p})
		r := newRig(t, g, 1<<20)
		f.FailAsync(cuda.IllegalAddress)
		_, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(200, 1)))
		if err == nil {
			err = wait(t, r.queue)
		}
		if !errors.Is(err, cuda.IllegalAddress) {
			t.Errorf("%s: %v, want the driver's illegal address", p, err)
		}
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(2, 1))); !errors.Is(err, cuda.ErrSticky) {
			t.Errorf("%s: after it: %v, want the sticky error again", p, err)
		}
	}
}

// A call that the driver refuses is an error of Copy, and the queue goes on.
func TestRefusedCallIsAnError(t *testing.T) {
	for p, sym := range map[copyeng.Path]cuda.Symbol{
		copyeng.PathMemcpy: cuda.SymMemcpyHtoDAsync, copyeng.PathBatch: cuda.SymMemcpyBatchAsyncV2, copyeng.PathBatch4: cuda.SymEventRecord,
		copyeng.PathZeroCopy: cuda.SymLaunchKernel, copyeng.PathHybrid25: cuda.SymStreamWaitEvent,
	} {
		g, f := fakeGPU(t, copyeng.GPUOptions{Force: p})
		r := newRig(t, g, 1<<20)
		f.FailNext(sym, cuda.OutOfMemory, 1)
		_, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(200, 1)))
		if !errors.Is(err, cuda.OutOfMemory) || !strings.Contains(err.Error(), string(p)) {
			t.Errorf("%s: %v, want out of memory and the path's name", p, err)
		}
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(200, 1))); err != nil {
			t.Errorf("%s: the next batch: %v", p, err)
		}
		if err := wait(t, r.queue); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// A copy that never ends makes Wait fail in time, and says what it waited for.
func TestHangingCopyMeetsTheDeadline(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{})
	r := newRig(t, g, 1<<20)
	f.Hang()
	if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(100, 1))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.queue.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	f.Release()
	if err := wait(t, r.queue); err != nil {
		t.Error(err)
	}
}

// A driver older than CUDA 12.8 has no batched copies: nothing needs them.
func TestOldDriver(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{}, cudafake.Without(cuda.SymMemcpyBatchAsync, cuda.SymMemcpyBatchAsyncV2), cudafake.Version(12040))
	if want := []copyeng.Path{copyeng.PathMemcpy, copyeng.PathZeroCopy}; !slices.Equal(g.Paths(), want) {
		t.Errorf("paths %v, want %v", g.Paths(), want)
	}
	r := newRig(t, g, 1<<20)
	for _, n := range []int{1, 4, 30, 200} {
		if _, err := r.queue.Copy(r.batch(copyeng.ToDevice, 4096, shuffled(256, 1)[:n])); err != nil {
			t.Error(err)
		}
	}
	if err := wait(t, r.queue); err != nil {
		t.Error(err)
	}
	if _, err := copyeng.OpenGPU(g.Context(), copyeng.GPUOptions{Force: copyeng.PathBatch}); err == nil || !strings.Contains(err.Error(), "memcpy-async") {
		t.Errorf("forcing batch: %v, want an error that lists the paths", err)
	}
}

// A wrapped stream keeps its order with the caller's own work, and outlives
// the queue.
func TestWrappedStream(t *testing.T) {
	g, _ := fakeGPU(t, copyeng.GPUOptions{})
	r := newRig(t, g, 1<<20)
	s, err := g.Context().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	q, err := g.WrapQueue(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Memset8(cuda.Ptr(r.device.Address()), 0x5c, r.device.Size()); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Copy(r.batch(copyeng.ToHost, 4096, shuffled(256, 3))); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, q); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(r.host.Bytes(), []byte{0x5c}); n != 1<<20 {
		t.Errorf("%d bytes of the caller's memset arrived, want all", n)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Query(); err != nil {
		t.Errorf("the caller's stream after the queue was closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
