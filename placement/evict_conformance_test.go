package placement_test

import (
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/placement/policytest"
)

func TestEvictorConformance(t *testing.T) {
	for _, c := range []struct {
		name     string
		smallest int
		make     policytest.Make
	}{
		{"lru", placement.MinFramesLRU, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewLRU(frames, pages)
		}},
		{"fifo", placement.MinFramesFIFO, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewFIFO(frames, pages)
		}},
		{"clock", placement.MinFramesClock, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewClock(frames, pages)
		}},
		{"random", placement.MinFramesRandom, func(frames, pages int, seed uint64) (placement.Evictor, error) {
			return placement.NewRandom(frames, pages, seed)
		}},
		{"lfu", placement.MinFramesLFU, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewLFU(frames, pages)
		}},
		{"sieve", placement.MinFramesSieve, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewSieve(frames, pages)
		}},
		{"arc", placement.MinFramesARC, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewARC(frames, pages)
		}},
		{"s3-fifo", placement.MinFramesS3FIFO, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewS3FIFO(frames, pages, placement.S3FIFOParams{})
		}},
		{"2q", placement.MinFrames2Q, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.New2Q(frames, pages, placement.TwoQParams{})
		}},
		{"lirs", placement.MinFramesLIRS, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewLIRS(frames, pages, placement.LIRSParams{})
		}},
		{"lirs with half of the frames HIR and few ghosts", placement.MinFramesLIRS, func(frames, pages int, _ uint64) (placement.Evictor, error) {
			return placement.NewLIRS(frames, pages, placement.LIRSParams{HIR: 0.5, Ghost: 0.3})
		}},
		{"w-tinylfu", placement.MinFramesWTinyLFU, func(frames, pages int, seed uint64) (placement.Evictor, error) {
			return placement.NewWTinyLFU(frames, pages, placement.WTinyLFUParams{Seed: seed})
		}},
		{"w-tinylfu with a large window", placement.MinFramesWTinyLFU, func(frames, pages int, seed uint64) (placement.Evictor, error) {
			return placement.NewWTinyLFU(frames, pages, placement.WTinyLFUParams{Seed: seed, Window: 0.5, Reset: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) { policytest.Run(t, c.make, policytest.Options{Smallest: c.smallest}) })
	}
	t.Run("belady", func(t *testing.T) {
		policytest.Run(t, nil, policytest.Options{
			Smallest: placement.MinFramesBelady,
			Offline: func(frames, pages int, accesses []uint32) (placement.Evictor, func(uint32), error) {
				f, err := placement.NewFuture(accesses, pages)
				if err != nil {
					return nil, nil, err
				}
				e, err := placement.NewBelady(frames, pages, f)
				return e, f.At, err
			},
		})
	})
}
