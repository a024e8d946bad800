package copyeng

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// gpuPaths are the paths of a GPU, in the order in which equals are preferred.
// More than half by batch beside a kernel is not among them: it can be 2 % faster
// than half, and was seen 20 % slower when the CPU was.
var gpuPaths = []Path{PathMemcpy, PathBatch, PathBatch2, PathBatch4, PathZeroCopy, PathHybrid25, PathHybrid50}

// exchangePaths are the ways to copy both ways at once.
var exchangePaths = []Path{PathSequential, PathExchange, PathTwoBatches}

// pathsOf are the paths of a direction, in the order of preference.
func pathsOf(d Direction) []Path {
	if d == bothWays {
		return exchangePaths
	}
	return gpuPaths
}

// steps is how many cells of the table lie between n and 2n pages.
const steps = 4

// cell is the answer for one direction, page size and number of pages.
type cell struct {
	path   Path
	micros float64
}

// curveTable is a calibration made ready for the chooser: the best path for
// every page size and for numbers of pages at quarter octaves, so that a choice
// costs a look-up. It does not change once made.
type curveTable struct {
	source string
	curves [directions][]*Curve // by growing page size
	usable func(Path) bool
	cells  [directions][]cell // by direction, then index of page and pages
}

const (
	minShift = 9  // log2 MinPage
	maxShift = 21 // log2 MaxPage
	maxCells = 20*steps + 1
)

// newCurveTable makes the table over the paths that the machine has.
func newCurveTable(cal *Calibration, source string, usable func(Path) bool) *curveTable {
	t := &curveTable{source: source, usable: usable}
	for d := range t.cells {
		t.curves[d] = cal.curvesOf(Direction(d))
		t.cells[d] = make([]cell, (maxShift-minShift+1)*maxCells)
		for shift := minShift; shift <= maxShift; shift++ {
			for k := range maxCells {
				n := math.Exp2(float64(k) / steps)
				t.cells[d][(shift-minShift)*maxCells+k] = pick(Direction(d), t.rank(Direction(d), 1<<shift, n))
			}
		}
	}
	return t
}

// How much slower a path may be than the best and still be taken: one that is
// simpler hardly, one kernel by more, since its time does not depend on how fast
// the CPU happens to be, as that of all others does: what they gain in one run
// they lose in another.
const (
	margin       = 1.005
	steadyMargin = 1.03
)

// pick takes the kernel if it is about as good as the best, or else the first
// path that is as good.
func pick(d Direction, ranked []cell) cell {
	for _, c := range ranked {
		if (c.path == PathZeroCopy || c.path == PathExchange) && c.micros <= steadyMargin*ranked[0].micros {
			return c
		}
	}
	for _, p := range pathsOf(d) {
		for _, c := range ranked {
			if c.path == p && c.micros <= margin*ranked[0].micros {
				return c
			}
		}
	}
	return cell{path: pathsOf(d)[0]} // no curve of a path that works here: the one that always does
}

// choose takes the cell nearest to n pages (in ratio).
func (t *curveTable) choose(d Direction, page, n int) cell {
	shift := bits.TrailingZeros(uint(page))
	return t.cells[d][(shift-minShift)*maxCells+quarterOctave(n)]
}

// quarterOctave is round(4 log2 n) without floating point logarithms, at most
// the last cell: of MaxPages, beyond which batches are refused.
func quarterOctave(n int) int {
	k := bits.Len(uint(n)) - 1
	// The mantissa in 1/1024, against 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8).
	m := n << 10 >> k
	f := 0
	for _, edge := range [...]int{1117, 1328, 1579, 1878} {
		if m >= edge {
			f++
		}
	}
	return min(k*steps+f, maxCells-1)
}

// leastPages is from how many pages on a path is itself: with fewer, streams stay
// empty and shares round to nothing, so that it is another path by a name that
// misleads.
func leastPages(p Path) float64 {
	switch p {
	case PathBatch2, PathHybrid50:
		return 2
	case PathBatch4, PathHybrid25:
		return 4
	}
	return 1
}

// longest bounds predicted times, in microseconds, so that they are Durations
// whatever a curve and a number of pages make of each other.
const longest = 9e15

// rank predicts the time of every path, fastest first.
func (t *curveTable) rank(d Direction, page int, n float64) []cell {
	var list []cell
	for _, p := range pathsOf(d) {
		if !t.usable(p) || n < leastPages(p) {
			continue
		}
		if us, ok := t.predict(d, p, page, n); ok {
			list = append(list, cell{p, min(us, longest)})
		}
	}
	slices.SortStableFunc(list, func(a, b cell) int {
		switch {
		case a.micros < b.micros:
			return -1
		case a.micros > b.micros:
			return 1
		}
		return 0
	})
	return list
}

// alternatives are the ranked paths at n pages.
func (t *curveTable) alternatives(d Direction, page, n int) []Alternative {
	var list []Alternative
	for _, c := range t.rank(d, page, float64(n)) {
		list = append(list, Alternative{c.path, time.Duration(c.micros * 1e3)})
	}
	return list
}

// predict interpolates the time of a path between the page sizes below and
// above, both on logarithmic scales: copy times are sums of a constant and a
// linear part, which are straight lines there except at the bend.
func (t *curveTable) predict(d Direction, p Path, page int, n float64) (float64, bool) {
	curves := t.curves[d]
	if len(curves) == 0 {
		return 0, false
	}
	i := slices.IndexFunc(curves, func(c *Curve) bool { return c.Page >= page })
	switch {
	case i < 0: // above the largest: by bytes
		last := curves[len(curves)-1]
		us, ok := last.at(p, n)
		return us * float64(page) / float64(last.Page), ok
	case i == 0 || curves[i].Page == page:
		return curves[i].at(p, n)
	}
	low, ok1 := curves[i-1].at(p, n)
	high, ok2 := curves[i].at(p, n)
	if !ok1 || !ok2 {
		return 0, false
	}
	f := math.Log2(float64(page)/float64(curves[i-1].Page)) / math.Log2(float64(curves[i].Page)/float64(curves[i-1].Page))
	return math.Exp2((1-f)*math.Log2(low) + f*math.Log2(high)), true
}

// at is the time of a path at n pages. Beyond the last number of pages time
// grows with them; a path that was given up earlier has none.
func (c *Curve) at(p Path, n float64) (float64, bool) {
	us := c.Micros[p]
	if len(us) == 0 {
		return 0, false
	}
	i := slices.IndexFunc(c.Pages, func(k int) bool { return float64(k) >= n })
	switch {
	case i < 0:
		if len(us) < len(c.Pages) {
			return 0, false
		}
		last := len(c.Pages) - 1
		return us[last] * n / float64(c.Pages[last]), true
	case i >= len(us):
		return 0, false
	case i == 0 || float64(c.Pages[i]) == n:
		return us[i], true
	}
	f := math.Log2(n/float64(c.Pages[i-1])) / math.Log2(float64(c.Pages[i])/float64(c.Pages[i-1]))
	return math.Exp2((1-f)*math.Log2(us[i-1]) + f*math.Log2(us[i])), true
}
