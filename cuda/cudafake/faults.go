package cudafake

import (
	"time"

	"github.com/tritier/tritier/cuda"
)

// faults is what was asked to go wrong, and the counts. Protected by GPU.mu.
type faults struct {
	calls map[cuda.Symbol]int
	next  map[cuda.Symbol][]planned
	async []cuda.Result
	hangs int
	delay time.Duration
}

type planned struct {
	result cuda.Result
	count  int
}

// take gives the failure that is planned for a call of s, and counts it.
func (f *faults) take(s cuda.Symbol) (cuda.Result, bool) {
	list := f.next[s]
	if len(list) == 0 {
		return cuda.Success, false
	}
	r := list[0].result
	if list[0].count--; list[0].count <= 0 {
		f.next[s] = list[1:]
	}
	return r, true
}

func (f *faults) takeAsync() (cuda.Result, bool) {
	if len(f.async) == 0 {
		return cuda.Success, false
	}
	r := f.async[0]
	f.async = f.async[1:]
	return r, true
}

// FailNext makes the next count calls of s, beyond those that earlier
// FailNexts still cover, answer r and do nothing. A call that fails for want
// of a context does not count.
func (g *GPU) FailNext(s cuda.Symbol, r cuda.Result, count int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if count > 0 {
		g.faults.next[s] = append(g.faults.next[s], planned{r, count})
	}
}

// FailAsync makes the next copy, memset or kernel that starts, on any stream,
// fail with r. A result that lasts (as IllegalAddress does) loses the context:
// what is queued there is dropped and every later call answers r. Another is
// answered once, by the next query or synchronisation of the stream.
func (g *GPU) FailAsync(r cuda.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults.async = append(g.faults.async, r)
}

// Hang makes the next copy, memset or kernel that is to start, on any stream,
// not start before Release.
func (g *GPU) Hang() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults.hangs++
}

// Release lets go on all that hangs, and takes back Hangs that nothing met.
func (g *GPU) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults.hangs = 0
	for _, s := range g.streams {
		if len(s.queue) > 0 && s.queue[0].state == opHung {
			s.queue[0].state = opQueued
		}
	}
	g.poke()
}

// Hanging says how many operations hang now.
func (g *GPU) Hanging() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, s := range g.streams {
		if len(s.queue) > 0 && s.queue[0].state == opHung {
			n++
		}
	}
	return n
}

// DelayOps makes each copy, memset and kernel that is queued from now on start
// no earlier than d after that.
func (g *GPU) DelayOps(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults.delay = max(d, 0)
}

// Calls is how often s was called, failures included.
func (g *GPU) Calls(s cuda.Symbol) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faults.calls[s]
}

// PageableCopies counts the copies with an end in host memory that is neither
// pinned nor registered: they work, but slowly, and a single one to the host
// makes its caller wait.
func (g *GPU) PageableCopies() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pageable
}
