package gpu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier/layout"
)

// refresher is the CPU's part of gmt-reuse: it takes the samples that kernels send,
// has package placement measure and fit, and publishes what is trusted.
type refresher struct {
	box    mailbox
	reuse  *placement.GMTReuse // the refresher's alone
	every  uint64
	parity bool
	taken  uint64
	done   chan struct{}
	ended  sync.WaitGroup
	last   atomic.Pointer[placement.ReuseReport] // what it has learnt, for others
}

// The refresher looks this often while samples come, and when none do.
const (
	busyLook = 20 * time.Microsecond
	idleLook = time.Millisecond
)

// fitEvery is how many samples make a fit.
func fitEvery(r *placement.GMTReuse) uint64 { return uint64(r.FitEvery()) }

// sampled says whether kernels send accesses to page p.
func sampled(r *placement.GMTReuse, p uint64) bool { return r.Sampled(placement.Page(p)) }

func startRefresher(m *cuda.HostMemory, r *placement.GMTReuse, parity bool) *refresher {
	f := &refresher{box: newMailbox(m), reuse: r, parity: parity, every: fitEvery(r), done: make(chan struct{})}
	f.tell()
	f.ended.Go(f.run)
	return f
}

// tell leaves what has been learnt for report.
func (f *refresher) tell() {
	r := f.reuse.Report()
	f.last.Store(&r)
}

// report is what has been learnt, and how kernels have decided by it. They take over a fit
// a little later than it is made.
func (f *refresher) report(d *layout.Counts) *placement.ReuseReport {
	r := *f.last.Load()
	r.First, r.Kept, r.Granted = d.Predicted[len(r.Predicted)], d.Keeps, d.Granted
	copy(r.Predicted[:], d.Predicted[:])
	copy(r.Outcomes[:], d.Judged[:])
	r.Classes = [3]uint64{}
	for _, row := range d.Judged {
		for c, n := range row {
			r.Classes[c] += n
		}
	}
	return &r
}

func (f *refresher) stop() {
	close(f.done)
	f.ended.Wait()
}

func (f *refresher) run() {
	idle := 0
	for {
		select {
		case <-f.done:
			return
		default:
		}
		if f.take() {
			idle = 0
			continue
		}
		look := busyLook
		if idle++; idle > 100 {
			look = idleLook
		}
		time.Sleep(look)
	}
}

// take takes what has come and says whether anything had.
func (f *refresher) take() bool {
	before := f.taken
	for f.taken-before < sampleCount/4 {
		now, page, ok := f.box.sample(f.taken)
		if !ok {
			break
		}
		version := f.reuse.Report().Params.Version
		f.reuse.Observe(now, page)
		f.taken++
		r := f.reuse.Report()
		if r.Params.Version != version {
			f.box.publish(r.Params)
		}
		gate := ^uint64(0)
		if f.parity { // kernels wait for the sample that completes the next fit; none before it can
			gate = f.taken + f.every - r.Samples%f.every
		}
		f.box.took(f.taken, gate)
	}
	if f.taken != before {
		f.tell()
	}
	return f.taken != before
}
