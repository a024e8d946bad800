package soft_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// BenchmarkRandRead reads 4 KiB blocks at random from 1 GiB of memory, with one
// service thread and the benchmark's own as the driver's.
func BenchmarkRandRead(b *testing.B) {
	for _, depth := range []int{1, 32} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) { benchRead(b, depth) })
	}
}

func benchRead(b *testing.B, depth int) {
	const size = 1 << 30
	mem, err := soft.NewMemory(size)
	if err != nil {
		b.Fatal(err)
	}
	data := mem.Bytes()
	for i := 0; i < size; i += 4096 {
		data[i], data[i+4095] = byte(i>>12), byte(i>>20)
	}
	s := start(b, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: mem}}})
	c := bringUp(b, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		b.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 128})
	if err != nil {
		b.Fatal(err)
	}
	buf, err := s.Alloc(depth * 4096)
	if err != nil {
		b.Fatal(err)
	}
	// Half of the depth is submitted at a time, so that a doorbell serves 16
	// requests while the other 16 keep the controller busy.
	batch := make([]libnvm.Request, 0, depth)
	free := make([]int, 0, depth)
	for i := range depth {
		free = append(free, i)
	}
	done := make([]libnvm.Completion, depth)
	rng := rand.New(rand.NewPCG(1, 2))
	lbas := make([]uint64, depth)
	before := q.Stats()
	b.ReportAllocs()
	b.SetBytes(4096)
	b.ResetTimer()
	sent, got := 0, 0
	for got < b.N {
		if sent < b.N && (len(free) >= max(depth/2, 1)) {
			batch = batch[:0]
			for len(free) > 0 && sent < b.N {
				i := free[len(free)-1]
				free = free[:len(free)-1]
				lbas[i] = rng.Uint64N(ns.Blocks)
				batch = append(batch, libnvm.Request{Op: libnvm.OpRead, NS: ns, LBA: lbas[i], Blocks: 1, Mem: buf, Offset: i * 4096, Tag: uint64(i)})
				sent++
			}
			if _, _, err := q.SubmitBatch(batch); err != nil {
				b.Fatal(err)
			}
		}
		n := q.Poll(done)
		for _, d := range done[:n] {
			i := int(d.Tag)
			if d.Err != nil {
				b.Fatal(d.Err)
			}
			if x := buf.Bytes()[i*4096:]; x[0] != byte(lbas[i]) || x[4095] != byte(lbas[i]>>8) {
				b.Fatal("wrong data")
			}
			free = append(free, i)
		}
		got += n
	}
	b.StopTimer()
	after := q.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "IOPS")
	b.ReportMetric(float64(after.SQDoorbells+after.CQDoorbells-before.SQDoorbells-before.CQDoorbells)/float64(b.N), "MMIO/op")
}
