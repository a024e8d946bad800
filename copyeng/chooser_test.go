package copyeng

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func everyPath(Path) bool { return true }

// crossing is a calibration in which memcpy-async is best below 8 pages, batch
// from there to 64 and zero-copy beyond, at every page size.
func crossing() *Calibration {
	c := &Calibration{Version: CalibrationVersion, GPU: GPUName{Name: "test", UUID: testUUID}, Driver: "13.0", Measured: time.Unix(0, 0).UTC()}
	for _, d := range []Direction{ToDevice, ToHost} {
		for _, page := range []int{4096, 65536} {
			scale := float64(page) / 4096
			curve := Curve{Direction: d.String(), Page: page, Micros: map[Path][]float64{}}
			for n := 1; n <= 1024; n *= 2 {
				f := float64(n)
				curve.Pages = append(curve.Pages, n)
				curve.Micros[PathMemcpy] = append(curve.Micros[PathMemcpy], scale*8*f)
				curve.Micros[PathBatch] = append(curve.Micros[PathBatch], scale*(32+4*f))
				curve.Micros[PathZeroCopy] = append(curve.Micros[PathZeroCopy], scale*(224+f))
			}
			c.Curves = append(c.Curves, curve)
		}
	}
	return c
}

func TestChooserFollowsTheCurves(t *testing.T) {
	table := newCurveTable(crossing(), "test", everyPath)
	for _, c := range []struct {
		page, n int
		want    Path
	}{
		{4096, 1, PathMemcpy}, {4096, 7, PathMemcpy}, {4096, 10, PathBatch}, {4096, 50, PathBatch}, {4096, 80, PathZeroCopy},
		{4096, 1024, PathZeroCopy}, {4096, 1 << 20, PathZeroCopy}, // beyond what was measured
		{65536, 7, PathMemcpy}, {65536, 10, PathBatch}, {65536, 80, PathZeroCopy},
		{16384, 6, PathMemcpy}, {16384, 20, PathBatch}, {16384, 100, PathZeroCopy}, // between page sizes
		{512, 2, PathMemcpy}, {2 << 20, 100, PathZeroCopy}, // outside of them
	} {
		for _, d := range []Direction{ToDevice, ToHost} {
			if got := table.choose(d, c.page, c.n); got.path != c.want {
				t.Errorf("%s, %d pages of %d: %s, want %s", d, c.n, c.page, got.path, c.want)
			}
		}
	}
}

// The table is a look-up of rounded numbers of pages: what it picks may cost
// at most what rounding and the preference for simple paths allow.
func TestChooserNearTheBest(t *testing.T) {
	table := newCurveTable(crossing(), "test", everyPath)
	for n := 1; n <= 4096; n++ {
		ranked := table.rank(ToHost, 4096, float64(n))
		got := table.choose(ToHost, 4096, n)
		us, _ := table.predict(ToHost, got.path, 4096, float64(n))
		if us > 1.10*ranked[0].micros {
			t.Errorf("%d pages: %s takes %.1f us, %s only %.1f", n, got.path, us, ranked[0].path, ranked[0].micros)
		}
	}
}

func TestQuarterOctave(t *testing.T) {
	for n := 1; n < 1<<20; n += 1 + n/97 {
		want := int(math.Round(4 * math.Log2(float64(n))))
		if got := quarterOctave(n); got != want && math.Abs(4*math.Log2(float64(n))-float64(got)) > 0.51 {
			t.Fatalf("quarterOctave(%d) = %d, want %d", n, got, want)
		}
	}
	if got := quarterOctave(1 << 30); got != maxCells-1 {
		t.Errorf("quarterOctave(2^30) = %d, want the last cell %d", got, maxCells-1)
	}
}

// A path that spreads pages is no choice for fewer pages than it has parts, even
// where a curve says that it is fastest.
func TestChooserKnowsWhatAPathNeeds(t *testing.T) {
	for p, least := range map[Path]int{PathBatch2: 2, PathBatch4: 4, PathHybrid25: 4, PathHybrid50: 2} {
		c := crossing()
		for i := range c.Curves {
			us := make([]float64, len(c.Curves[i].Pages))
			for k := range us {
				us[k] = 0.001
			}
			c.Curves[i].Micros[p] = us
		}
		table := newCurveTable(c, "test", everyPath)
		for n := 1; n <= 16; n++ {
			got := table.choose(ToHost, 4096, n).path
			if (got == p) != (n >= least) {
				t.Errorf("%d pages go by %s", n, got)
			}
			listed := slices.ContainsFunc(table.alternatives(ToHost, 4096, n), func(a Alternative) bool { return a.Path == p })
			if listed != (n >= least) {
				t.Errorf("%d pages: %s among the alternatives: %v", n, p, listed)
			}
		}
	}
}

// Absurd numbers of pages, and times, give absurd predictions, but positive ones.
func TestChooserAtTheLimits(t *testing.T) {
	slow := crossing()
	for _, us := range slow.Curves[0].Micros {
		for k := range us {
			us[k] = maxMicros
		}
	}
	for _, c := range []*Calibration{crossing(), slow} {
		table := newCurveTable(c, "test", everyPath)
		for _, n := range []int{MaxPages - 1, MaxPages, MaxPages + 1, 1 << 40, 1 << 53, 1 << 62, math.MaxInt} {
			for _, page := range []int{MinPage, 4096, MaxPage} {
				got := table.choose(ToDevice, page, n)
				if want := table.choose(ToDevice, page, MaxPages); n >= MaxPages && got != want {
					t.Errorf("%d pages of %d: %+v, want what %d pages give: %+v", n, page, got, MaxPages, want)
				}
				if d := time.Duration(got.micros * 1e3); d <= 0 {
					t.Errorf("%d pages of %d: %v", n, page, d)
				}
				last := time.Duration(0)
				for _, a := range table.alternatives(ToDevice, page, n) {
					if a.Time <= 0 || a.Time < last {
						t.Errorf("%d pages of %d: %+v after %v", n, page, a, last)
					}
					last = a.Time
				}
			}
		}
	}
}

// A driver without the batched call has no path that needs it.
func TestChooserLeavesOutWhatIsMissing(t *testing.T) {
	table := newCurveTable(crossing(), "test", func(p Path) bool { return p != PathBatch })
	for n := 1; n <= 1024; n++ {
		if got := table.choose(ToDevice, 4096, n); got.path == PathBatch {
			t.Fatalf("%d pages go by batch, which is missing", n)
		}
	}
}

func TestGivenUpPathIsNotExtrapolated(t *testing.T) {
	c := crossing()
	for i := range c.Curves {
		c.Curves[i].Micros[PathMemcpy] = c.Curves[i].Micros[PathMemcpy][:5] // measured to 16 pages
	}
	table := newCurveTable(c, "test", everyPath)
	if _, ok := table.predict(ToDevice, PathMemcpy, 4096, 17); ok {
		t.Error("a time for memcpy-async at 17 pages, which was measured to 16")
	}
	if us, ok := table.predict(ToDevice, PathMemcpy, 4096, 16); !ok || us != 128 {
		t.Errorf("at 16 pages: %v us (%v), want 128", us, ok)
	}
	if us, ok := table.predict(ToDevice, PathZeroCopy, 4096, 2048); !ok || us != 2*(224+1024) {
		t.Errorf("zero-copy at 2,048 pages: %v (%v), want twice the time at 1,024", us, ok)
	}
}

func TestWhySaysAllTimes(t *testing.T) {
	table := newCurveTable(crossing(), "calibrated today", everyPath)
	c := Choice{Path: PathBatch, Dir: ToHost, Page: 4096, Pages: 32, Source: table.source, choices: table}
	want := "batch for 32 pages of 4096 bytes to-host: predicted batch 160.0 us, memcpy-async 256.0 us, zero-copy 256.0 us (calibrated today)"
	if got := c.Why(); got != want {
		t.Errorf("Why() = %q, want %q", got, want)
	}
}

// Random calibrations, however odd, must neither crash the table nor make it
// pick a path that was never measured.
func TestRandomCalibrations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		c := &Calibration{Version: CalibrationVersion}
		measured := map[Path]bool{}
		for _, d := range []Direction{ToDevice, ToHost} {
			for _, page := range []int{512, 2 << 20}[:1+rng.IntN(2)] {
				curve := Curve{Direction: d.String(), Page: page, Pages: []int{1, 1 + 1 + rng.IntN(100)}, Micros: map[Path][]float64{}}
				for i, p := range gpuPaths {
					if k := rng.IntN(3); k > 0 || i == 0 {
						if i == 0 {
							k = 2
						}
						measured[p] = true
						for range k {
							curve.Micros[p] = append(curve.Micros[p], math.Exp(20*rng.Float64()-5))
						}
					}
				}
				c.Curves = append(c.Curves, curve)
			}
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		table := newCurveTable(c, "random", everyPath)
		for range 100 {
			got := table.choose(Direction(rng.IntN(2)), 512<<rng.IntN(13), 1+rng.IntN(2000))
			if !measured[got.path] || !(got.micros > 0) {
				t.Fatalf("chose %+v of %v", got, measured)
			}
		}
	}
}
