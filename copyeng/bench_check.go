package copyeng

import (
	"errors"
	"fmt"
	"slices"
)

// The memory that a bench can have, on each side: a whole number of the largest
// pages in each half, and so few pages that their numbers are quickly drawn.
const (
	benchUnit  = 2 * MaxPage
	mostBench  = 64 << 30
	mostRuns   = 1 << 20
	benchError = "bench of copies: "
)

// checkBenchSize refuses memory that pages cannot lie scattered in.
func checkBenchSize(size uint64) error {
	if size < benchUnit || size > mostBench || size%benchUnit != 0 {
		return fmt.Errorf("%d bytes to copy between: give a multiple of %d, from %d to %d", size, benchUnit, benchUnit, uint64(mostBench))
	}
	return nil
}

// checkShape refuses pages that engines do not take, and more of them than lie
// scattered in the memory: at most half of it, each way.
func (b *Bench) checkShape(page, n, ways int) error {
	switch {
	case b == nil || b.queue == nil:
		return errors.New("bench of copies: it was not made by NewBench")
	case b.closed:
		return fmt.Errorf(benchError+"%w", ErrClosed)
	case !validPage(page):
		return fmt.Errorf(benchError+"page size %d is not a power of two from %d to %d", page, MinPage, MaxPage)
	case n < 1 || n > MaxPages:
		return fmt.Errorf(benchError+"%d pages are not from 1 to %d", n, MaxPages)
	case !b.fits(page, ways*n):
		each := ""
		if ways > 1 {
			each = " each way"
		}
		return fmt.Errorf(benchError+"%d pages of %d bytes%s do not fit twice in %d bytes", n, page, each, b.host.size)
	}
	return nil
}

// checkRuns refuses numbers of runs that have no median, or no end.
func checkRuns(runs int) error {
	if runs < 1 || runs > mostRuns {
		return fmt.Errorf(benchError+"%d runs are not from 1 to %d", runs, mostRuns)
	}
	return nil
}

// checkPaths refuses paths that do not go that way, or not here. The empty path
// is the chooser's.
func (b *Bench) checkPaths(d Direction, paths []Path) error {
	if len(paths) == 0 {
		return errors.New(benchError + "no path to take: name one, or the empty one for the chooser's")
	}
	for _, p := range paths {
		switch {
		case p == "":
		case !slices.Contains(pathsOf(d), p):
			return fmt.Errorf(benchError+"no path %q copies %s: there are %v", p, d, pathsOf(d))
		case !b.gpu.usable(p):
			return fmt.Errorf(benchError+"path %s: not one of this GPU and driver", p)
		}
	}
	return nil
}
