package placement_test

import (
	"testing"
	"time"

	"github.com/tritier/tritier/placement"
)

// replays are the two-tier loops of evict_loops_test.go: each replays accesses
// with a fresh evictor, and returns the misses. in is all zero, one byte a page.
var replays = []struct {
	name string
	run  func(frames, pages int, accesses []uint32, in []uint8) (int, error)
}{
	{"lru", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewLRU(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesLRU(e, accesses, in), nil
	}},
	{"fifo", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewFIFO(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesFIFO(e, accesses, in), nil
	}},
	{"clock", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewClock(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesClock(e, accesses, in), nil
	}},
	{"sieve", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewSieve(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesSieve(e, accesses, in), nil
	}},
	{"random", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewRandom(frames, pages, 1)
		if err != nil {
			return 0, err
		}
		return missesRandom(e, accesses, in), nil
	}},
	{"lfu", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewLFU(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesLFU(e, accesses, in), nil
	}},
	{"arc", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewARC(frames, pages)
		if err != nil {
			return 0, err
		}
		return missesARC(e, accesses, in), nil
	}},
	{"s3-fifo", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewS3FIFO(frames, pages, placement.S3FIFOParams{})
		if err != nil {
			return 0, err
		}
		return missesS3FIFO(e, accesses, in), nil
	}},
	{"2q", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.New2Q(frames, pages, placement.TwoQParams{})
		if err != nil {
			return 0, err
		}
		return missesTwoQ(e, accesses, in), nil
	}},
	{"lirs", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewLIRS(frames, pages, placement.LIRSParams{})
		if err != nil {
			return 0, err
		}
		return missesLIRS(e, accesses, in), nil
	}},
	{"w-tinylfu", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		e, err := placement.NewWTinyLFU(frames, pages, placement.WTinyLFUParams{})
		if err != nil {
			return 0, err
		}
		return missesWTinyLFU(e, accesses, in), nil
	}},
	{"belady", func(frames, pages int, accesses []uint32, in []uint8) (int, error) {
		f, err := placement.NewFuture(accesses, pages)
		if err != nil {
			return 0, err
		}
		e, err := placement.NewBelady(frames, pages, f)
		if err != nil {
			return 0, err
		}
		return missesBelady(e, f, accesses, in), nil
	}},
}

// BenchmarkTwoTiers reports how fast one core replays a trace that is in memory
// already, the making of the evictor included: accesses a second on average,
// and in the fastest replay, which a busy machine disturbs less.
func BenchmarkTwoTiers(b *testing.B) {
	for _, c := range []struct {
		trace  string
		frames int
	}{{"arc_OLTP", 10_000}, {"mooncake_conversation", 20_000}, {"bfs_gnutella31", 20_000}} {
		for _, r := range replays {
			b.Run(c.trace+"/"+r.name, func(b *testing.B) {
				accesses, pages := load(b, c.trace)
				in := make([]uint8, pages)
				b.ReportAllocs()
				best := time.Hour
				for b.Loop() {
					clear(in)
					start := time.Now()
					if _, err := r.run(c.frames, pages, accesses, in); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(len(accesses))/best.Seconds()/1e6, "best-Maccess/s")
				b.ReportMetric(float64(len(accesses))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Maccess/s")
			})
		}
	}
}
