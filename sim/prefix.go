package sim

import (
	"math"
	"slices"
)

// prefixCounter counts prefix hits: the accesses of each request before its
// first one that needed the SSD. It is told of misses only, in order.
type prefixCounter struct {
	starts []uint64 // trace positions at which requests start, ascending
	next   int      // index in starts of the first request after the current one
	closed uint64   // hits of the requests before the current one
	missed bool     // the current request has missed already
}

func newPrefixCounter(starts []uint64) *prefixCounter { return &prefixCounter{starts: starts} }

// add appends the starts of further requests, for a stream whose accesses up to
// position done have been run. Requests that are over are forgotten, so that
// the memory taken does not grow with the stream.
func (c *prefixCounter) add(starts []uint64, done uint64) {
	if done > 0 {
		c.advance(done - 1)
	}
	if over := c.next - 1; over > 0 {
		c.starts = slices.Delete(c.starts, 0, over)
		c.next = 1
	}
	c.starts = append(c.starts, starts...)
}

// miss notes that the access at trace position pos needed the SSD, and returns
// the position from which further misses matter: the next request's.
func (c *prefixCounter) miss(pos uint64) uint64 {
	if c.next < len(c.starts) && pos >= c.starts[c.next] {
		c.advance(pos)
	}
	if !c.missed {
		c.missed = true
		c.closed += pos - c.start()
	}
	return c.watch()
}

// watch is the position from which a miss matters.
func (c *prefixCounter) watch() uint64 {
	switch {
	case !c.missed:
		return c.start()
	case c.next < len(c.starts):
		return c.starts[c.next]
	}
	return math.MaxUint64 // until more starts are known
}

// advance closes the current request and all before the one that holds pos.
// Going through them one by one costs constant time a request in all.
func (c *prefixCounter) advance(pos uint64) {
	for c.next < len(c.starts) && c.starts[c.next] <= pos {
		if !c.missed {
			c.closed += c.starts[c.next] - c.start()
		}
		c.missed = false
		c.next++
	}
}

// start is where the current request starts.
func (c *prefixCounter) start() uint64 {
	if c.next == 0 {
		return 0
	}
	return c.starts[c.next-1]
}

// hits is the count when the trace has been run up to position end.
func (c *prefixCounter) hits(end uint64) uint64 {
	i, _ := slices.BinarySearch(c.starts, end)
	open := prefixCounter{starts: c.starts[:i], next: min(c.next, i), closed: c.closed, missed: c.missed}
	if end > open.start() && open.next < i {
		open.advance(end - 1)
	}
	if !open.missed {
		open.closed += end - open.start()
	}
	return open.closed
}
