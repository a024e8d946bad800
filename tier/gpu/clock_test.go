package gpu

import (
	"testing"
	"time"
)

// TestClock: the GPU's time is translated by the last good reading, at the rate that
// readings far apart show, and how far off it was is known.
func TestClock(t *testing.T) {
	begun := time.Now()
	// A clock that began at another time, and runs fast by 40 millionths.
	device := func(host time.Duration) uint64 { return 1<<60 + uint64(float64(host)*1.00004) }
	reading := func(at, half time.Duration) *instant {
		return &instant{device: device(at), host: begun.Add(at), half: half, rate: 1}
	}
	c := &clock{first: nil}
	wrong := func(at time.Duration) time.Duration { return c.now.Load().at(device(at)).Sub(begun.Add(at)) }
	const half = 4 * time.Microsecond
	c.adopt(reading(0, half))
	if off := wrong(time.Millisecond); c.off != half+clockStep || off.Abs() > 100 {
		t.Errorf("at first %v, known %v", off, c.off)
	}
	if off := wrong(-time.Second); (off + 40*time.Microsecond).Abs() > 100 {
		t.Errorf("a second before: %v", off)
	}
	c.adopt(reading(time.Second, 100*half)) // coarse, and nothing wrong with the first: that stays
	if off := wrong(time.Second); (off-40*time.Microsecond).Abs() > 100 || c.off < 100*half {
		t.Errorf("after a coarse reading %v, known %v", off, c.off)
	}
	c.adopt(reading(5*time.Second, 20*half)) // coarse, but the first is worse
	if off := wrong(5 * time.Second); off.Abs() > 100 || c.off < 200*time.Microsecond {
		t.Errorf("after a reading that contradicts %v, known %v", off, c.off)
	}
	c.adopt(reading(20*time.Second, half))
	if off := wrong(40 * time.Second); off.Abs() > time.Microsecond {
		t.Errorf("with the rate known, off by %v", off)
	}
	c.adopt(&instant{device: device(30 * time.Second), host: begun.Add(60 * time.Second), half: half, rate: 1})
	if c.now.Load().rate != 1 || c.off < 30*time.Second-time.Millisecond {
		t.Errorf("a clock that stood still has the rate %v, known %v", c.now.Load().rate, c.off)
	}
}
