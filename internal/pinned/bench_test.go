package pinned

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// BenchmarkOpen makes and closes pools of 1 GiB of plain memory: MB/s is the start-up's rate, closing included.
func BenchmarkOpen(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"default", Config{}},
		{"loop", Config{loop: true}},
		{"small pages", Config{HugePages: HugeNever}},
		{"small pages, loop", Config{HugePages: HugeNever, loop: true}},
	} {
		for _, workers := range []int{0, 1} {
			b.Run(fmt.Sprintf("%s/workers %d", c.name, workers), func(b *testing.B) {
				cfg := c.cfg
				cfg.Size, cfg.Node, cfg.Workers = 1*gib, AnyNode, workers
				b.SetBytes(int64(cfg.Size))
				for b.Loop() {
					p, err := Open(b.Context(), cfg)
					var limit *LimitError
					if errors.As(err, &limit) {
						b.Skip(err)
					}
					if err != nil {
						b.Fatal(err)
					}
					if err := p.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkBaseline is what a program does without this package: reserve 1 GiB, write to each page from one thread, unmap.
func BenchmarkBaseline(b *testing.B) {
	if l, err := Limits(); err != nil || l.Check(1*gib, AnyNode) != nil {
		b.Skip("1 GiB does not fit")
	}
	k := machineKernel()
	b.SetBytes(1 * gib)
	for b.Loop() {
		mem, err := k.reserve(1*gib, ChunkAlign)
		if err != nil {
			b.Fatal(err)
		}
		touchLoop(mem, uint64(os.Getpagesize()))
		if err := k.release(mem); err != nil {
			b.Fatal(err)
		}
	}
}
