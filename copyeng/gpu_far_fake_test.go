package copyeng_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/copyeng"
)

// Spaces of which only the end, beyond 4 GiB, is used. The device has memory
// nowhere else, the host zeros: an offset that is cut to fewer bits does not
// find the data.
const (
	farStart = 5 << 30
	farRoom  = 8 << 20
)

// farRig is such spaces of an engine.
func farRig(t *testing.T, g *copyeng.GPU) *rig {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, farStart+farRoom, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := g.Context().RegisterHost(mem[farStart:], 0)
	if err != nil {
		t.Fatal(err)
	}
	device, err := g.Context().Alloc(farRoom)
	if err != nil {
		t.Fatal(err)
	}
	q, err := g.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.Context().Err() != nil {
			return // the test has failed, with the kernel's bad address
		}
		for _, free := range []func() error{q.Close, pinned.Unregister, device.Free, func() error { return unix.Munmap(mem) }} {
			if err := free(); err != nil {
				t.Error(err)
			}
		}
	})
	return &rig{
		t: t, queue: q,
		host:   g.SpaceAt(copyeng.HostMemory, uint64(pinned.DevicePtr())-farStart, farStart+farRoom, mem),
		device: g.SpaceAt(copyeng.DeviceMemory, uint64(device.Ptr())-farStart, farStart+farRoom, nil),
	}
}

// Every path reaches pages beyond 4 GiB in both spaces, small and large: page
// numbers of up to 24 bits.
func TestFarPages(t *testing.T) {
	for _, p := range []copyeng.Path{
		copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathBatch2, copyeng.PathBatch4, copyeng.PathZeroCopy, copyeng.PathHybrid25, copyeng.PathHybrid50,
	} {
		t.Run(string(p), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("pages by seed %d", seed)
			g, _ := fakeGPU(t, copyeng.GPUOptions{Force: p})
			r := farRig(t, g)
			for page := copyeng.MinPage; page <= copyeng.MaxPage; page *= 4 {
				for _, n := range []int{1, 4, 61, 1500} {
					if n > 4 && n*page > 1<<20 {
						continue
					}
					r.farBothWays(g, page, farPairs(page, n, seed), func(dir copyeng.Direction, pairs []copyeng.Pair) error {
						_, err := r.queue.Copy(r.batch(dir, page, pairs))
						return err
					})
				}
			}
		})
	}
}

// So does every way to exchange.
func TestFarExchanges(t *testing.T) {
	for _, p := range []copyeng.Path{copyeng.PathExchange, copyeng.PathTwoBatches} {
		t.Run(string(p), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("pages by seed %d", seed)
			g, _ := fakeGPU(t, exchanging(t, p))
			r := farRig(t, g)
			for page := copyeng.MinPage; page <= copyeng.MaxPage/2; page *= 4 {
				n := min(100, 1<<20/page)
				all := farPairs(page, 2*n, seed)
				// The other half goes the other way, to and from pages of its own.
				r.farBothWays(g, page, all[:n], func(dir copyeng.Direction, pairs []copyeng.Pair) error {
					in, out := pairs, all[n:]
					if dir == copyeng.ToHost {
						in, out = out, in
					}
					return copyeng.ExchangeBy(r.queue, p, r.batch(copyeng.ToDevice, page, in), r.batch(copyeng.ToHost, page, out))
				})
			}
		})
	}
}

// farPairs is n pages in the part that is memory.
func farPairs(page, n int, seed uint64) []copyeng.Pair {
	pairs := shuffled(farRoom/page, seed)[:n]
	for i := range pairs {
		pairs[i].Host += uint32(farStart / page)
		pairs[i].Device += uint32(farStart / page)
	}
	return pairs
}

// farBothWays copies pages there and back, with data that each end has looked at.
func (r *rig) farBothWays(g *copyeng.GPU, page int, pairs []copyeng.Pair, start func(copyeng.Direction, []copyeng.Pair) error) {
	r.t.Helper()
	want := make([]byte, page*len(pairs))
	fill(want, uint64(page+len(pairs)))
	host := func(i int) []byte { return r.host.Bytes()[int(pairs[i].Host)*page:][:page] }
	for i := range pairs {
		copy(host(i), want[i*page:])
	}
	device := make([]byte, farRoom)
	for _, dir := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
		what := fmt.Sprintf("%d pages of %d bytes %s", len(pairs), page, dir)
		if err := start(dir, pairs); err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
		if err := wait(r.t, r.queue); err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
		if err := (plain{g.Context()}).read(r.device, farStart, device); err != nil {
			r.t.Fatal(err)
		}
		for i, x := range pairs {
			sent, at := want[i*page:][:page], int(x.Device)*page-farStart
			if !bytes.Equal(host(i), sent) || !bytes.Equal(device[at:][:page], sent) {
				r.t.Fatalf("%s: host page %d or device page %d is not what was copied", what, x.Host, x.Device)
			}
			clear(host(i)) // for the way back
		}
	}
}
