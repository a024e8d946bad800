package servicetime

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// Op is the direction of a drive operation.
type Op uint8

// The drive operations that a Queue times.
const (
	OpRead Op = iota
	OpWrite
)

// Queue is one drive of a Model in virtual time: it says when an operation
// that arrives at a given time is done. It keeps three limits, those of
// Estimate: as many operations in service as the edge's concurrency, each for
// a latency drawn from the model's distribution; and the drive's IOPS and
// bandwidth, a time that reads and writes share. It reads no clock; a given
// seed and sequence of calls give the same times. Not safe for concurrent use.
type Queue struct {
	edges [2]edgeTimes
	rng   *rand.Rand
	slots [2]slotHeap
	busy  float64 // ns until which the drive's shared time is taken
}

// edgeTimes is an Edge in the units that the hot path needs.
type edgeTimes struct {
	latency float64 // ns, mean
	sigma   float64
	perByte float64 // ns
	perOp   float64 // ns
	command float64 // ns of the controller, in addition to the bytes
	slots   int
}

// NewQueue returns one idle drive of the model's array.
func (m *Model) NewQueue(seed uint64) *Queue {
	return &Queue{
		edges: [2]edgeTimes{OpRead: m.Drives.Read.times(), OpWrite: m.Drives.Write.times()},
		rng:   rand.New(rand.NewPCG(seed, 0x7472697469657221)),
	}
}

func (e Edge) times() edgeTimes {
	t := edgeTimes{latency: e.LatencyNS.Value, perByte: 1e9 / e.Bandwidth.Value, command: e.controllerNS(), slots: max(1, int(e.Concurrency.Value))}
	if e.IOPS != nil {
		t.perOp = 1e9 / e.IOPS.Value
	}
	if e.LatencySigma != nil {
		t.sigma = e.LatencySigma.Value
	}
	return t
}

// Submit returns when an operation of size bytes that arrives at now is done,
// both in nanoseconds on the caller's clock. Calls must not go back in time.
func (q *Queue) Submit(now uint64, op Op, size uint64) (done uint64) {
	e := &q.edges[op&1]
	arrival := float64(now)
	start := arrival
	if slots := &q.slots[op&1]; len(*slots) >= e.slots {
		start = max(start, (*slots)[0])
	}
	q.busy = max(q.busy, arrival) + max(e.perOp, e.command+e.perByte*float64(size))
	end := max(start+q.latency(e), q.busy)
	q.take(op, e, end)
	return uint64(math.Ceil(end))
}

// latency draws from a log-normal distribution with the edge's mean: its
// median is mean*exp(-sigma^2/2).
func (q *Queue) latency(e *edgeTimes) float64 {
	if e.sigma == 0 {
		return e.latency
	}
	return e.latency * math.Exp(e.sigma*q.rng.NormFloat64()-e.sigma*e.sigma/2)
}

// take occupies the slot that is free first until end.
func (q *Queue) take(op Op, e *edgeTimes, end float64) {
	s := &q.slots[op&1]
	if len(*s) < e.slots {
		heap.Push(s, end)
		return
	}
	(*s)[0] = end
	heap.Fix(s, 0)
}

// slotHeap is a min-heap of the times at which service slots become free.
type slotHeap []float64

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h slotHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *slotHeap) Push(x any) {
	if t, ok := x.(float64); ok {
		*h = append(*h, t)
	}
}

// Pop implements heap.Interface.
func (h *slotHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
