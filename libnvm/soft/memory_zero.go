package soft

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// zeroPiece is what a processor makes zero at a time.
	zeroPiece = 8 * hugePage
	// zeroWorkers bounds the processors: a few use up what memory takes.
	zeroWorkers = 8
)

// zero makes a range read as zeroes. Whole huge pages are not written, since that
// would have the kernel clear each of them first, for nothing: they go back to it. A
// new array of many GiB would otherwise take its service thread many seconds. Where
// they are for use they come back at once, by several processors, and not one by one
// to a service thread that has something better to do.
func (m *Memory) zero(off, n int64, forUse bool) {
	low, high := (off+hugePage-1)/hugePage*hugePage, (off+n)/hugePage*hugePage
	if low >= high || unix.Madvise(m.data[low:high], unix.MADV_DONTNEED) != nil {
		clear(m.data[off : off+n]) // too small, or locked into memory
		return
	}
	clear(m.data[off:low])
	clear(m.data[high : off+n])
	if forUse {
		populate(m.data[low:high])
	}
}

// populate has the kernel give memory to a range. A kernel before 5.14 does not know how,
// and one that is interrupted or has none left leaves some out: those pages come when they
// are touched.
func populate(b []byte) {
	var next atomic.Int64
	work := func() {
		for {
			low := next.Add(zeroPiece) - zeroPiece
			if low >= int64(len(b)) {
				return
			}
			if err := unix.Madvise(b[low:min(low+zeroPiece, int64(len(b)))], unix.MADV_POPULATE_WRITE); err != nil && err != unix.EINTR {
				return
			}
		}
	}
	workers := min(runtime.GOMAXPROCS(0), zeroWorkers, (len(b)+zeroPiece-1)/zeroPiece)
	var all sync.WaitGroup
	for range workers - 1 {
		all.Go(work)
	}
	work()
	all.Wait()
}
