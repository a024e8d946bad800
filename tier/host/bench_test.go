package host

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

func benchMemory(b *testing.B, t1, t2, pages int) (*Memory, placement.Page) {
	b.Helper()
	s, err := placement.Parse("gmt-reuse")
	if err != nil {
		b.Fatal(err)
	}
	r := newRAM(4096, t1, t2+256)
	m, err := New(r, newDisk(r, 1), Options{PageSize: 4096, T1: t1, T2: t2, Spares: 256, Policy: s})
	if err != nil {
		b.Fatal(err)
	}
	base, err := m.NewArray(0, "a", uint64(pages))
	if err != nil {
		b.Fatal(err)
	}
	return m, base
}

// gather reads 4096 random elements of 8 bytes at a time.
func gather(b *testing.B, t1, t2, pages int) {
	m, base := benchMemory(b, t1, t2, pages)
	rng := rand.New(rand.NewPCG(1, 1))
	batch := &Batch{Op: tier.Read, Lanes: 32, Buffer: Buffer{Bytes: make([]byte, 8*4096)}}
	for i := range 4096 {
		batch.Spans = append(batch.Spans, Span{Page: base + placement.Page(rng.IntN(pages)), Offset: int32(rng.IntN(512) * 8), Length: 8, At: int64(i * 8)})
	}
	ctx := context.Background()
	run := func() {
		rng.Shuffle(len(batch.Spans), func(i, j int) { batch.Spans[i].Page, batch.Spans[j].Page = batch.Spans[j].Page, batch.Spans[i].Page })
		if err := m.Run(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	for range 20 {
		run()
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/4096, "ns/element")
}

// BenchmarkHits: every page is in T1.
func BenchmarkHits(b *testing.B) { gather(b, 4096, 0, 4000) }

// BenchmarkT2Hits: nearly every page is in T2.
func BenchmarkT2Hits(b *testing.B) { gather(b, 256, 8192, 8000) }

// BenchmarkFetches: most pages are in T3.
func BenchmarkFetches(b *testing.B) { gather(b, 256, 256, 8000) }
