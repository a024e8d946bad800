package copyeng_test

import (
	"bytes"
	"testing"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
)

// An engine that must not launch copies whatever it is given without a kernel, and
// without a stream, event or memory that it did not have when the queue was made.
func TestNoLaunch(t *testing.T) {
	g, f := fakeGPU(t, copyeng.GPUOptions{NoLaunch: true})
	const page, n = 4096, 300
	r := newRig(t, g, page*n)
	fill(r.host.Bytes(), 11)
	want := bytes.Clone(r.host.Bytes())
	makers := []cuda.Symbol{cuda.SymLaunchKernel, cuda.SymStreamCreateWithPriority, cuda.SymEventCreate, cuda.SymMemAlloc, cuda.SymModuleLoadDataEx}
	before := make([]int, len(makers))
	for i, s := range makers {
		before[i] = f.Calls(s)
	}
	for _, k := range []int{1, 7, 64, n} { // 64 and more go by kernel where that may be
		pairs := shuffled(n, uint64(k))[:k]
		for _, dir := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
			c, err := r.queue.Copy(r.batch(dir, page, pairs))
			if err != nil || c.Path != copyeng.PathMemcpy && c.Path != copyeng.PathBatch {
				t.Fatalf("%v, %v", c, err)
			}
			if err := wait(t, r.queue); err != nil {
				t.Fatal(err)
			}
			if dir == copyeng.ToDevice {
				for _, x := range pairs {
					clear(r.host.Bytes()[int(x.Host)*page:][:page])
				}
			}
		}
		if !bytes.Equal(r.host.Bytes(), want) {
			t.Fatalf("%d pages did not come back", k)
		}
	}
	half := shuffled(n, 3)
	if _, err := r.queue.Exchange(r.batch(copyeng.ToDevice, page, half[:n/2]), r.batch(copyeng.ToHost, page, half[n/2:])); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, r.queue); err != nil {
		t.Fatal(err)
	}
	for i, s := range makers {
		if now := f.Calls(s); now != before[i] {
			t.Errorf("%d calls of %v", now-before[i], s)
		}
	}
	if _, err := copyeng.OpenGPU(g.Context(), copyeng.GPUOptions{NoLaunch: true, Force: copyeng.PathZeroCopy}); err == nil {
		t.Error("a path of kernels is forced on an engine that launches none")
	}
	// The curves of all paths can be asked all the same.
	kernel, ok := g.Predict(copyeng.PathZeroCopy, copyeng.ToDevice, 65536, 32)
	single, ok2 := g.Predict(copyeng.PathMemcpy, copyeng.ToDevice, 65536, 32)
	if !ok || !ok2 || kernel <= 0 || single <= kernel {
		t.Errorf("32 pages by a kernel take %v, one by one %v", kernel, single)
	}
	if _, ok := g.Predict(copyeng.PathZeroCopy, copyeng.ToDevice, 1000, 1); ok {
		t.Error("pages of 1000 bytes are predicted")
	}
}
