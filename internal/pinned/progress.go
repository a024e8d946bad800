package pinned

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// progress adds up work and reports it as bytes of the pool.
type progress struct {
	report     func(done, total uint64)
	size, work uint64 // bytes of the pool, and of all work on it
	sum        atomic.Uint64

	mu   sync.Mutex // held during report, so that reports rise and come one at a time
	last uint64
}

func (p *progress) add(n uint64) {
	sum := p.sum.Add(n)
	// Whoever finds a report under way leaves it at that: the next one tells of its work too.
	if p.report == nil || sum == p.work || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if done := sum / (p.work / p.size); done > p.last {
		p.last = done
		p.report(done, p.size)
	}
}

// finish makes the last report, when all work is done.
func (p *progress) finish() {
	if p.report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(p.size, p.size)
}

// notes collects what was not as asked for and only costs speed.
type notes struct {
	mu   sync.Mutex
	list []string
}

// add appends a note once; the workers all find the same.
func (n *notes) add(format string, a ...any) {
	s := fmt.Sprintf(format, a...)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.list, s) {
		n.list = append(n.list, s)
	}
}
