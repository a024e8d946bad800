package soft_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// BenchmarkFileRandRead reads 4 KiB blocks at random, 32 at a time, from a file
// through the software controller. The file is named by TRITIER_BENCH_FILE, so
// that scripts/bench-file.sh can give fio the same one; without it a small one
// is made.
func BenchmarkFileRandRead(b *testing.B) {
	const depth = 32
	path, o := os.Getenv("TRITIER_BENCH_FILE"), soft.FileOptions{BlockSize: 4096}
	if path == "" {
		path, o.Size = filepath.Join(b.TempDir(), "disk"), 64<<20
	}
	f, err := soft.OpenFile(path, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Log(f.Describe())
	s := start(b, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: f}}})
	c := bringUp(b, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		b.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 2 * depth})
	if err != nil {
		b.Fatal(err)
	}
	buf, err := s.Alloc(depth * 4096)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	done := make([]libnvm.Completion, depth)
	batch := make([]libnvm.Request, 0, depth)
	sent := 0
	send := func(slots ...uint64) {
		batch = batch[:0]
		for _, i := range slots {
			if sent < b.N {
				batch = append(batch, libnvm.Request{Op: libnvm.OpRead, NS: ns, LBA: rng.Uint64N(ns.Blocks), Blocks: 1, Mem: buf, Offset: int(i) * 4096, Tag: i})
				sent++
			}
		}
		if _, _, err := q.SubmitBatch(batch); err != nil {
			b.Fatal(err)
		}
	}
	slots := make([]uint64, depth)
	for i := range slots {
		slots[i] = uint64(i)
	}
	b.SetBytes(4096)
	b.ReportAllocs()
	b.ResetTimer()
	send(slots...)
	idle := 0
	for got := 0; got < b.N; {
		n := q.Poll(done)
		for i, d := range done[:n] {
			if d.Err != nil {
				b.Fatal(d.Err)
			}
			slots[i] = d.Tag
		}
		got += n
		if n > 0 {
			send(slots[:n]...)
			idle = 0
		} else if idle++; idle > 2000 {
			time.Sleep(5 * time.Microsecond) // leave the processor to whoever serves the device
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "IOPS")
}
