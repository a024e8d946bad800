package volume_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// TestQueuesInParallel has several goroutines write, flush and read pages of
// their own, with a log so small that checkpoints happen all the time.
func TestQueuesInParallel(t *testing.T) {
	const workers, pages, rounds, seed = 4, 24, 60, 9
	c, ns, shut := memoryNamespace(t, soft.Config{Threads: 2}, libnvm.Config{})
	m, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: t.TempDir(), Close: shut})
	must(t, err)
	v, err := volume.Create([]volume.Member{m}, volume.Options{PageSize: 4096, Checksums: true, LogBytes: 4096})
	must(t, err)
	a, err := v.CreateArray("a", workers*pages)
	must(t, err)
	versions := make([][]uint64, workers)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		versions[w] = make([]uint64, pages)
		wg.Go(func() { errs[w] = work(t.Context(), v, a, uint64(w), versions[w], rounds, seed) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	must(t, a.Close())
	must(t, v.Close())
}

// work owns the pages w*len(versions) and up.
func work(ctx context.Context, v *volume.Volume, a *volume.Array, w uint64, versions []uint64, rounds int, seed uint64) error {
	q, err := v.OpenQueue(4)
	if err != nil {
		return err
	}
	mem, err := v.Alloc(8 * 4096)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, w))
	want := make([]byte, 4096)
	for range rounds {
		var reqs []volume.Request
		for i, p := range rng.Perm(len(versions))[:1+rng.IntN(8)] {
			page := w*uint64(len(versions)) + uint64(p)
			r := volume.Request{Array: a, Page: page, Write: rng.IntN(3) > 0, Mem: mem, Offset: i * 4096}
			if r.Write {
				versions[p] = rng.Uint64() | 1
				stamp(mem.Bytes()[i*4096:(i+1)*4096], page, versions[p])
			}
			reqs = append(reqs, r)
		}
		if err := q.Run(ctx, reqs, time.Minute); err != nil {
			return err
		}
		for i, r := range reqs {
			stamp(want, r.Page, versions[r.Page-w*uint64(len(versions))])
			if string(mem.Bytes()[i*4096:(i+1)*4096]) != string(want) {
				return errors.New("a page does not hold what was written last")
			}
		}
		if rng.IntN(5) == 0 {
			if err := v.Flush(); err != nil {
				return err
			}
		}
	}
	return errors.Join(q.Close(), mem.Free())
}
