package copyeng_test

import (
	"maps"
	"sync"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// order follows what copies and kernels wait for what others, by the calls that
// make it so: a stream's order, events recorded in one and waited for by another.
type order struct {
	gpu *cudafake.GPU

	mu      sync.Mutex        // protects what follows
	streams map[uintptr]works // what a stream has, or waits for, so far
	events  map[uintptr]works // what an event comes after
	list    []work
}

// works is a set of copies and kernels, by number.
type works map[int]bool

// work is one of them.
type work struct {
	stream uintptr
	after  works
}

func newOrder(f *cudafake.GPU) *order {
	return &order{gpu: f, streams: map[uintptr]works{}, events: map[uintptr]works{}}
}

// streamArgument says which argument of a call that starts something is the
// stream.
var streamArgument = map[cuda.Symbol]int{
	cuda.SymMemcpyBatchAsyncV2: 7, cuda.SymLaunchKernel: 8, cuda.SymMemcpyHtoDAsync: 3, cuda.SymMemcpyDtoHAsync: 3,
}

// answer lets the fake answer, and notes what that did.
func (o *order) answer(s cuda.Symbol, args []uintptr) (cuda.Result, bool) {
	at, starts := streamArgument[s]
	if !starts && s != cuda.SymEventRecord && s != cuda.SymStreamWaitEvent {
		return cuda.Success, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.gpu.Call(s, args)
	switch {
	case r != cuda.Success:
	case s == cuda.SymEventRecord: // (event, stream)
		o.events[args[0]] = maps.Clone(o.of(args[1]))
	case s == cuda.SymStreamWaitEvent: // (stream, event, flags)
		maps.Copy(o.of(args[0]), o.events[args[1]])
	default:
		have := o.of(args[at])
		o.list = append(o.list, work{args[at], maps.Clone(have)})
		have[len(o.list)-1] = true
	}
	return r, true
}

func (o *order) of(stream uintptr) works {
	if o.streams[stream] == nil {
		o.streams[stream] = works{}
	}
	return o.streams[stream]
}

// all is what was started so far.
func (o *order) all() works {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := works{}
	for i := range o.list {
		w[i] = true
	}
	return w
}

// without lists the streams of what was started since and does not wait for all
// of first.
func (o *order) without(first works) (streams []uintptr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.list[len(first):] {
		for i := range first {
			if !w.after[i] {
				streams = append(streams, w.stream)
				break
			}
		}
	}
	return streams
}

// follow has o see the calls that the tap leaves to the fake.
func (p *tap) follow(o *order) {
	before := p.answer.Load()
	p.set(func(s cuda.Symbol, args []uintptr) (cuda.Result, bool) {
		if before != nil {
			if r, answered := (*before)(s, args); answered {
				return r, true
			}
		}
		return o.answer(s, args)
	})
}
