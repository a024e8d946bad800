package tritier

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// onHost is the CPU as orchestrator: tier/host over copyeng and the volume.
type onHost struct {
	cfg   *parsed
	tiers *tiers
	eng   copyeng.Engine // of tiers
	t3    *tier3
	mem   *host.Memory
	whyT1 string // why T1 is where it is
	base  uint64 // of T1, for the GPU
	bytes []byte // of T1, if the CPU reaches it; base and bytes never change, since readers of pins take no lock
	seen  *observer
	told  atomic.Uint64 // events

	rest   *salvage      // that a Close has begun
	saved  atomic.Uint64 // pages, by a salvage
	resets atomic.Uint64 // of the drives, by a salvage, or by t3 itself
}

func openOnHost(p *parsed, v *volume.Volume) (*onHost, error) {
	o := &onHost{cfg: p}
	if err := o.open(v); err != nil {
		_, failed := o.release(func() error { return nil })
		return nil, errors.Join(err, failed)
	}
	return o, nil
}

func (o *onHost) open(v *volume.Volume) (err error) {
	p := o.cfg
	frames, t2, spares := p.pages()
	if o.tiers, o.whyT1, err = openTiers(p, frames, t2+spares); err != nil {
		return err
	}
	o.eng, o.base, o.bytes = o.tiers.eng, o.tiers.t1.Address(), o.tiers.t1.Bytes()
	if o.t3, err = newTier3(v, o.tiers.t2.Bytes(), p.Timeout, &o.resets); err != nil {
		return err
	}
	h := host.Options{PageSize: int(p.PageSize), T1: frames, T2: t2, Spares: spares, Policy: p.policy, Seed: p.Seed,
		Retries: max(p.Retries, 0), Timeout: p.Timeout}
	if p.Events != nil {
		h.Events = func(e Event) {
			o.told.Add(1)
			p.Events(e)
		}
	}
	if o.seen = newObserver(&p.Config); o.seen != nil {
		h.Observe = func(array int, page uint64, op tier.Op) { o.seen.tell(array, Access{o.t3.name(array), page, op}) }
	}
	o.mem, err = host.New(o.tiers, o.t3, h)
	return err
}

func (o *onHost) adopt(a *openArray, v *volume.Array) error {
	o.t3.add(a.id, a.key.name, v)
	base, err := o.mem.NewArray(a.id, a.key.name, v.Pages())
	if err != nil {
		return joinClose(err, func() error { return o.t3.forget(a.id) })
	}
	a.first = uint64(base)
	return nil
}

func (o *onHost) drop(_ context.Context, a *openArray) error {
	if err := o.mem.DropArray(placement.Page(a.first)); err != nil {
		return err
	}
	return o.t3.forget(a.id)
}

// spansAtOnce bounds the spans that are made for one call of the engine.
const spansAtOnce = 1 << 16

// span is n elements from number x on, which lie on one page.
func (a *openArray) span(x, n uint64, at int64) host.Span {
	return host.Span{Page: placement.Page(a.first + x/a.perPage), Offset: int32(x % a.perPage * a.size), Length: int32(n * a.size), At: at}
}

// elements goes on after a part of which some accesses failed.
func (o *onHost) elements(ctx context.Context, a *openArray, op tier.Op, indices []uint64, buf host.Buffer) error {
	var failed failures
	spans := make([]host.Span, 0, min(len(indices), spansAtOnce))
	for at := 0; at < len(indices); at += spansAtOnce {
		spans = spans[:0]
		for i, x := range indices[at:min(at+spansAtOnce, len(indices))] {
			spans = append(spans, a.span(x, 1, int64(at+i)*int64(a.size)))
		}
		b := host.Batch{Op: op, Spans: spans, Lanes: host.MaxLanes, Buffer: buf}
		if err := o.mem.Run(ctx, &b); !failed.add(err) {
			return err
		}
	}
	return failed.err()
}

func (o *onHost) run(ctx context.Context, a *openArray, op tier.Op, first, n uint64, buf host.Buffer) error {
	var failed failures
	var spans []host.Span
	for done := uint64(0); done < n; {
		spans = spans[:0]
		for done < n && len(spans) < spansAtOnce {
			take := a.take(first+done, n-done)
			spans = append(spans, a.span(first+done, take, int64(done*a.size)))
			done += take
		}
		b := host.Batch{Op: op, Spans: spans, Buffer: buf}
		if err := o.mem.Run(ctx, &b); !failed.add(err) {
			return err
		}
	}
	return failed.err()
}

func (o *onHost) pages(a *openArray, pages []uint64) []placement.Page {
	list := make([]placement.Page, len(pages))
	for i, p := range pages {
		list[i] = placement.Page(a.first + p)
	}
	return list
}

func (o *onHost) pin(ctx context.Context, a *openArray, pages []uint64) ([]int32, error) {
	return o.mem.Pin(ctx, o.pages(a, pages))
}

func (o *onHost) unpin(a *openArray, pages []uint64, _ []int32) error {
	o.mem.Unpin(o.pages(a, pages))
	return nil
}

func (o *onHost) frames() (uint64, []byte) { return o.base, o.bytes }

func (o *onHost) flush(ctx context.Context) error { return o.mem.Flush(ctx) }
func (o *onHost) check() error                    { return o.mem.Check() }

func (o *onHost) finish(ctx context.Context) error {
	if o.rest != nil {
		return o.rest.write(ctx)
	}
	err := o.mem.Close(ctx)
	var broken *BrokenError
	if errors.As(err, &broken) && broken.Kept {
		return o.salvage(ctx, err)
	}
	return err
}

// release frees what was opened, the last first. Memory that drives may still use
// stays, and release can be called again.
func (o *onHost) release(closeStore func() error) (all bool, err error) {
	if o.t3 == nil {
		all, err = closed(closeStore)
	} else {
		all, err = o.t3.close(closeStore)
	}
	if !all {
		return false, err
	}
	o.t3 = nil
	err = joinClose(err, o.rest.free) // which drives that are closed read no more
	if o.tiers != nil {
		err = joinClose(err, o.tiers.Close)
		o.tiers = nil
	}
	return true, err
}

func (o *onHost) describe(d *Description) {
	d.Engine = "host-orchestrated: the CPU decides and starts every move"
	d.T1.Where, d.T1.Why = "ordinary memory", o.whyT1
	d.T2.Where, d.T2.Why = "ordinary memory", o.whyT1
	if g, ok := o.eng.(*copyeng.GPU); ok {
		d.T1.Where, d.T2.Where = "GPU memory of "+g.Name(), "pinned host memory"
	}
}

func (o *onHost) stats() Stats {
	s := o.mem.Stats()
	s.Flushed += o.saved.Load()
	s.Recoveries += o.resets.Load()
	return Stats{Stats: s, Copies: o.eng.Stats()}
}

func (o *onHost) observed(context.Context) (Observed, error) { return o.seen.observed(), nil }

func (o *onHost) traced(context.Context) (Traced, error) { return Traced{Told: o.told.Load()}, nil }
