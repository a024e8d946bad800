package timed

import "math"

// Time is kept in nanoseconds by events and in picoseconds by servers, whose
// costs have 16 more bits, so that a bandwidth's remainder is never lost.
const (
	psPerNS  = 1000
	costBits = 16
	costUnit = psPerNS << costBits // of a cost in a nanosecond
)

// cost is shared time, in 2^-16 ps.
type cost uint64

// maxCost bounds one request, at 70 s.
const maxCost = cost(1) << 62

// costOf rounds nanoseconds up.
func costOf(ns float64) cost {
	c := math.Ceil(ns * costUnit)
	if c >= float64(maxCost) {
		return maxCost
	}
	return cost(c)
}

// server is time that requests share, in order of arrival: a link, a drive's
// channel, threads.
type server struct {
	busy int64 // ps until which it is taken
	rest cost  // of a picosecond

	used   uint64 // ps of work in all
	worked cost   // rest of it
}

// take reserves c from now on, in ns, and returns the end in ns, rounded up. work
// is the part of c that is work, rather than units idling for want of commands.
func (s *server) take(now int64, c, work cost) int64 {
	if at := now * psPerNS; s.busy < at {
		s.busy, s.rest = at, 0
	}
	s.rest += c
	ps := s.rest >> costBits
	s.busy += int64(ps)
	s.worked += work
	s.used += uint64(s.worked >> costBits)
	s.worked &= 1<<costBits - 1
	s.rest &= 1<<costBits - 1
	return (s.busy + psPerNS - 1) / psPerNS
}
