package gpu

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/cuda"
)

const (
	firstReadings = 8 // of the GPU's clock, of which the quickest counts
	laterReadings = 3
	clockStep     = time.Microsecond // in which the GPU's clock advances
	compareEvery  = 250 * time.Millisecond
	compareWithin = 20 * time.Millisecond // beside batches, which wait for it
	rateAfter     = 10 * time.Second      // of readings make the clocks' rates known better than they differ
	mostRate      = 1e-3                  // by which clocks that work differ
)

// instant is one moment by both clocks, and how many ns of the host's one of the GPU's is.
type instant struct {
	device uint64
	host   time.Time
	half   time.Duration // of the time that the reading took: the moment is somewhere within
	rate   float64
}

// at is the host's time when the GPU's clock showed ns.
func (i *instant) at(ns uint64) time.Time {
	return i.host.Add(time.Duration(i.rate * float64(int64(ns-i.device))))
}

// clock translates the GPU's time. A kernel that writes the GPU's clock is launched and
// waited for: its reading was taken in between. The caller of its methods has Engine.mu.
type clock struct {
	stream *cuda.Stream
	kernel func(*cuda.Stream) error
	word   *uint64
	first  *instant
	now    atomic.Pointer[instant] // for the teller
	off    time.Duration           // the most by which now was off, as far as readings tell
	last   time.Time
	late   bool // a reading did not end in time
}

func openClock(ctx context.Context, k *kernels, gpu *cuda.Context, m *cuda.HostMemory) (*clock, error) {
	s, err := gpu.NewStream()
	if err != nil {
		return nil, err
	}
	one := cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(1)}
	c := &clock{stream: s, word: clockWord(m), kernel: func(s *cuda.Stream) error { return k.ReadClock(s, one, m.DevicePtr().Add(clockAt)) }}
	if err := c.compare(ctx, firstReadings); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *clock) close() error { return c.stream.Close() }

var errClockBusy = errors.New("an earlier reading of the GPU's clock has not ended")

// read reads the GPU's clock.
func (c *clock) read(ctx context.Context) (*instant, error) {
	if c.late {
		if done, err := c.stream.Query(); err != nil || !done {
			return nil, errors.Join(err, errClockBusy)
		}
		c.late = false
	}
	begun := time.Now()
	if err := c.kernel(c.stream); err != nil {
		return nil, err
	}
	if err := c.stream.Wait(ctx); err != nil {
		c.late = true
		return nil, err
	}
	half := time.Since(begun) / 2
	return &instant{device: atomic.LoadUint64(c.word), host: begun.Add(half), half: half, rate: 1}, nil
}

// compare reads the clock so often, of which the quickest reading counts.
func (c *clock) compare(ctx context.Context, readings int) error {
	var best *instant
	for range readings {
		i, err := c.read(ctx)
		if err != nil {
			return err
		}
		if best == nil || i.half < best.half {
			best = i
		}
	}
	c.last = time.Now()
	c.adopt(best)
	return nil
}

// adopt goes on from a reading, unless it is coarser than the one in use and does not
// contradict it.
func (c *clock) adopt(best *instant) {
	c.off = max(c.off, best.half+clockStep)
	if c.first == nil {
		c.first = best
	} else {
		now := c.now.Load()
		wrong := now.at(best.device).Sub(best.host).Abs()
		c.off = max(c.off, wrong+best.half+clockStep)
		if wrong <= best.half && best.half > now.half {
			return
		}
	}
	if span := best.host.Sub(c.first.host); span >= rateAfter {
		if rate := float64(span) / float64(best.device-c.first.device); math.Abs(rate-1) < mostRate {
			best.rate = rate
		}
	}
	c.now.Store(best)
}

// refresh compares the clocks when that was some time ago. Where it cannot be done now,
// since kernels are in the way, it is done later.
func (c *clock) refresh(ctx context.Context) {
	if time.Since(c.last) < compareEvery {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), compareWithin)
	defer cancel()
	if c.compare(bounded, laterReadings) != nil {
		c.last = time.Now() // not again at once
	}
}

// refreshClock is called where kernels have ended. The caller has mu.
func (e *Engine) refreshClock(ctx context.Context) {
	if e.tell != nil {
		e.tell.clock.refresh(ctx)
	}
}
