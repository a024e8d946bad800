package timed

import (
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Options say how a Replay runs.
type Options struct {
	Path     string // access path; empty: the model's default
	InFlight int    // accesses outstanding at once: the warps that wait for a page each
	PageSize uint64 // bytes
	Seed     uint64 // of the latencies
}

// The ways in which an access waits, for its latency.
const (
	waitHit = iota
	waitDelayed
	waitT2
	waitT3
	waitOverwrite
	waitPrefetch
	waitNothing // of no access: a prefetch of a page that is there, a write of a flush
	waits
)

var waitNames = [waitNothing]string{"hit", "delayed hit", "t2 hit", "t3 fetch", "overwrite", "prefetch"}

// marksOfAccess are what an access announces as it goes: its page is in T1, T1's
// victim and T2's are out. Others wait for these.
const (
	markPage = iota
	markVictim
	markSecond
	marksOfAccess
)

// Replay gives the accesses of a trace times: a tier.Machine decides, one access
// after another, and each access then goes through the model's machine:
//
//	victim of T2 that is dirty: written to T3
//	victim of T1: copied to T2, or written to T3 when it is dirty and skips T2
//	page: moved from T2, or read from T3; an overwritten one comes from nowhere
//	access to T1
//
// one step after the other, as one warp does them. So many accesses are under
// way at once; the next one in the trace begins when one of them has ended. An
// access to a page that is on its way waits for it (a delayed hit), and so does
// whoever wants to move a page that is still being moved. A payload that the path
// leaves in host memory is then copied to T1; a page that leaves T1 on such a path
// is copied to host memory first.
//
// Decisions and counters are those of the machine alone: time never changes them.
// A Replay is not safe for concurrent use.
type Replay struct {
	*device
	pending []uint32 // of each page: the announcement that it waits for, plus 1
	page    []placement.Page
	waiters []int32 // of each announcement: the first of those who wait, as nodes
	nodes   []int32 // next node; a request has one for each of its pages
	lacks   []uint8 // what each request still waits for
	early   []uint8 // marks that a request announces as it begins
	issued  []int64
	kind    []uint8
	free    []int32 // requests that are not under way
	ready   []int32 // requests that may begin
	waits   [waits]histogram
	did     servicetime.Counts
	began   uint64 // requests
	ended   uint64
	toHost  bool // payload ends in host memory
	flushed int64
	stuck   bool
	step    tier.Step
}

// NewReplay makes a replay in which nothing has happened yet. Errors are unknown
// paths and numbers that cannot be.
func NewReplay(m *servicetime.Model, o Options) (*Replay, error) {
	d, err := newDevice(m, o.Path, o.PageSize, o.Seed, o.InFlight)
	if err != nil {
		return nil, err
	}
	n := o.InFlight
	r := &Replay{device: d, page: make([]placement.Page, n*marksOfAccess), waiters: make([]int32, n*marksOfAccess), nodes: make([]int32, n*marksOfAccess),
		lacks: make([]uint8, n), early: make([]uint8, n), issued: make([]int64, n), kind: make([]uint8, n), free: make([]int32, n)}
	for i := range r.free {
		r.free[i] = int32(n - 1 - i)
	}
	for i := range r.waiters {
		r.waiters[i] = none
	}
	r.toHost = d.path.Ends == servicetime.InHost && m.GPU != nil
	r.did.PageSize = o.PageSize
	r.user = r
	return r, nil
}

// Grow makes room for pages with an index below pages.
func (r *Replay) Grow(pages int) {
	if n := pages - len(r.pending); n > 0 {
		r.pending = append(r.pending, make([]uint32, n)...)
	}
}

// Run performs accs with m and gives each its time. Every page must be below the
// count given to Grow.
func (r *Replay) Run(m *tier.Machine, accs []tier.Access) {
	for _, a := range accs {
		w := r.take()
		if w == none {
			return
		}
		m.Step(a, &r.step)
		r.issue(w, a)
	}
}

// take waits, in virtual time, for a request that is not under way. There always
// is one, since nobody waits for ever: see issue. If that were not so, Result would
// say it.
func (r *Replay) take() int32 {
	for len(r.free) == 0 {
		if !r.engine.step() {
			r.stuck = true
			return none
		}
	}
	w := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.requests[w].n, r.early[w], r.lacks[w] = 0, 0, 0
	r.issued[w] = r.now
	r.began++
	return w
}

// issue sets the chain of the access up that the machine has just decided, and
// begins it unless it must wait for others. It only ever waits for accesses
// before it, so that the first one under way is never held up.
func (r *Replay) issue(w int32, a tier.Access) {
	s, p := &r.step, a.Page()
	if s.Kind == tier.StepHit {
		r.kind[w] = waitHit
		if r.pending[p] != 0 {
			r.kind[w] = waitDelayed
			r.wait(w, markPage, p)
		}
		r.access(w)
		r.launch(w)
		return
	}
	r.leave(w, p)
	switch s.Kind {
	case tier.StepIdle, tier.StepRefused:
		r.kind[w] = waitNothing
	default:
		r.wait(w, markPage, p)
		r.fill(w, p)
		r.announce(w, markPage, p)
	}
	if a.Op() != tier.Prefetch && s.Kind != tier.StepRefused {
		r.access(w)
	}
	r.launch(w)
}

// leave adds what has to leave the tiers before page p comes.
func (r *Replay) leave(w int32, p placement.Page) {
	s := &r.step
	if s.Second != placement.None && s.Second != p { // its own copy need not leave: it is what is read
		r.wait(w, markSecond, s.Second)
		if s.WriteSecond {
			r.write(w, s.Second, opWriteHost)
			r.announce(w, markSecond, s.Second)
		}
	}
	if s.Victim == placement.None {
		return
	}
	r.wait(w, markVictim, s.Victim)
	switch {
	case s.Copied:
		r.demote(w)
	case s.Write:
		r.write(w, s.Victim, r.fromT1(w))
	default:
		return // clean: its frame is free as soon as nobody fills it any more
	}
	r.announce(w, markVictim, s.Victim)
}

// fromT1 makes the page ready to be written from T1 and returns the operation.
func (r *Replay) fromT1(w int32) uint8 {
	if r.toHost {
		r.demote(w)
	}
	return opWrite
}

func (r *Replay) demote(w int32) {
	if r.model.GPU != nil {
		r.add(w, opDemote, atDemote)
		r.did.Demotions++
	}
}

func (r *Replay) promote(w int32) {
	if r.model.GPU != nil {
		r.add(w, opPromote, atPromote)
		r.did.T2Hits++
	}
}

func (r *Replay) write(w int32, p placement.Page, op uint8) {
	r.command(w, op, int(uint32(p)%uint32(r.drives)))
	r.did.T3Writes++
	if op == opWriteHost {
		r.did.T3WritesFromT2++
	}
}

// fill adds the way of page p into T1.
func (r *Replay) fill(w int32, p placement.Page) {
	switch r.step.Kind {
	case tier.StepT2Hit:
		r.kind[w] = waitT2
		r.promote(w)
	case tier.StepFetch:
		r.kind[w] = waitT3
		r.read(w, p)
	case tier.StepOverwrite:
		r.kind[w] = waitOverwrite
	case tier.StepPrefetchT2:
		r.kind[w] = waitPrefetch
		r.promote(w)
	case tier.StepPrefetch:
		r.kind[w] = waitPrefetch
		r.read(w, p)
	}
}

func (r *Replay) read(w int32, p placement.Page) {
	r.command(w, opRead, int(uint32(p)%uint32(r.drives)))
	r.did.T3Reads++
	if r.toHost {
		r.promote(w)
	}
}

func (r *Replay) access(w int32) {
	if r.model.GPU != nil {
		r.add(w, opT1, atT1)
		r.did.Accesses++
	}
}
