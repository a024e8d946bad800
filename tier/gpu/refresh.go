package gpu

import (
	"sync"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
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
	f.ended.Go(f.run)
	return f
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
	return f.taken != before
}
