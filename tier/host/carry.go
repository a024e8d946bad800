package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// ioLists are the moves of a wave; kept for their memory.
type ioLists struct {
	first, second []Request // reads and T2's victims; T1's victims
	ofFirst       []int     // the miss that each belongs to
	ofSecond      []int
	out           []Copy
	tail          tail
}

// carry carries a wave out: tier.PlanConfig.Carry. What is left of it then, the tail,
// cannot fail for a page alone, and is done beside the reads of the next wave.
func (m *Memory) carry(w *tier.Wave) error {
	// What has begun is ended, also when the caller gave up meanwhile: a wave
	// cut in two would leave the tiers unknown.
	ctx, cancel := m.bounded(m.ctx)
	defer cancel()
	begun := m.began()
	m.list(w)
	if m.io.tail.needs(m.io.first) {
		if err := m.endTail(); err != nil {
			return err
		}
	}
	reads := m.begin(m.io.first)
	if err := m.endTail(); err != nil { // before victims leave the frames that it fills
		return errors.Join(err, reads.wait(ctx))
	}
	if err := m.copy(t1ToT2, m.io.out); err != nil {
		return errors.Join(err, reads.wait(ctx))
	}
	writes := m.begin(m.io.second)
	if err := errors.Join(reads.wait(ctx), writes.wait(ctx)); err != nil {
		return err
	}
	if err := m.again(ctx, m.io.first, m.io.second); err != nil {
		return err
	}
	m.judge(w)
	w.Resolve()
	m.beginTail(w, begun)
	return nil
}

// bounded is ctx without its end, but bounded by the time that all requests, their
// repetitions and a recovery may take.
func (m *Memory) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Duration(m.o.Retries+2)*m.o.Timeout+grace)
}

// grace is what the store has beyond the requests' own time-outs to say how they ended.
const grace = 10 * time.Second

// list collects the requests and copies of a wave.
func (m *Memory) list(w *tier.Wave) {
	l := &m.io
	l.first, l.second, l.out = l.first[:0], l.second[:0], l.out[:0]
	l.ofFirst, l.ofSecond = l.ofFirst[:0], l.ofSecond[:0]
	for i := range w.Misses {
		x := &w.Misses[i]
		if x.Read {
			l.first, l.ofFirst = append(l.first, m.request(x.Page, x.Slot, false)), append(l.ofFirst, i)
		}
		if u := &x.Second; u.Page != placement.None && u.Write {
			l.first, l.ofFirst = append(l.first, m.request(u.Page, u.Place, true)), append(l.ofFirst, i)
		}
		v := &x.Victim
		if v.Page == placement.None || v.Slot == tier.NoPlace {
			continue
		}
		l.out = append(l.out, Copy{Frame: v.Place, Slot: v.Slot})
		if v.Write {
			l.second, l.ofSecond = append(l.second, m.request(v.Page, v.Slot, true)), append(l.ofSecond, i)
		}
	}
}

func (m *Memory) request(p placement.Page, slot int32, write bool) Request {
	a := m.find(p)
	return Request{Array: a.id, Page: uint64(p - a.base), Slot: slot, Write: write}
}

// started is a set of requests on its way.
type started struct {
	m    *Memory
	list []Request
	p    Pending
	at   time.Time
}

// begin starts requests. When the store refuses them, each has its error.
func (m *Memory) begin(list []Request) started {
	s := started{m: m, list: list, at: time.Now()}
	if len(list) == 0 {
		return s
	}
	var err error
	if s.p, err = m.t3.Start(list); err != nil {
		s.p = nil
		for i := range list {
			list[i].Err = err
		}
	}
	return s
}

func (s started) wait(ctx context.Context) error {
	if s.p == nil {
		return nil
	}
	if err := s.p.Wait(ctx); err != nil {
		return &unsettledError{err}
	}
	s.m.stats.transferred(s.list, s.m.o.PageSize, time.Since(s.at))
	s.m.moved(s.list, s.at)
	return nil
}

// again repeats what failed, all of it together, as often as the options say. What
// timed out may still land: its slot cannot be used, nor its page written, before the
// store has made sure that it does not.
func (m *Memory) again(ctx context.Context, lists ...[]Request) error {
	if err := m.settle(ctx, lists...); err != nil {
		return err
	}
	for range m.o.Retries {
		if failed, err := m.retry(ctx, lists...); err != nil || len(failed) == 0 {
			return err
		}
	}
	return nil
}

// retry repeats once what failed, and returns these requests as they ended now.
func (m *Memory) retry(ctx context.Context, lists ...[]Request) (failed []Request, err error) {
	var from []*Request
	for _, list := range lists {
		for i := range list {
			if r := &list[i]; r.Err != nil {
				failed, from = append(failed, Request{Array: r.Array, Page: r.Page, Slot: r.Slot, Write: r.Write}), append(from, r)
			}
		}
	}
	if len(failed) == 0 {
		return nil, nil
	}
	m.stats.Retries += uint64(len(failed))
	if err := m.begin(failed).wait(ctx); err != nil {
		return failed, err
	}
	if err := m.settle(ctx, failed); err != nil {
		return failed, err
	}
	for i := range failed {
		from[i].Err = failed[i].Err
	}
	return failed, nil
}

// settle has the store end what is late.
func (m *Memory) settle(ctx context.Context, lists ...[]Request) error {
	for _, list := range lists {
		if slices.ContainsFunc(list, func(r Request) bool { return r.Err != nil && r.Late }) {
			m.stats.Recoveries++
			if err := m.t3.Recover(ctx); err != nil {
				return &unsettledError{err}
			}
			return nil
		}
	}
	return nil
}

// judge tells the wave what failed.
func (m *Memory) judge(w *tier.Wave) {
	l := &m.io
	for i := range l.first {
		if r, x := &l.first[i], &w.Misses[l.ofFirst[i]]; r.Err != nil && !r.Write {
			x.Err = r.Err
		}
	}
	abort := func(r *Request, miss int, victim placement.Page) {
		if r.Err != nil && r.Write {
			w.Abort(miss, victim, r.Err)
		}
	}
	for i := range l.first {
		abort(&l.first[i], l.ofFirst[i], w.Misses[l.ofFirst[i]].Second.Page)
	}
	for i := range l.second {
		abort(&l.second[i], l.ofSecond[i], w.Misses[l.ofSecond[i]].Victim.Page)
	}
}

// copy moves pages between T1 and T2.
func (m *Memory) copy(e edge, list []Copy) error {
	if len(list) == 0 {
		return nil
	}
	begun := time.Now()
	move, kind := m.eng.Out, EventDemote
	if e == t2ToT1 {
		move, kind = m.eng.In, EventPromote
	}
	if err := move(list); err != nil {
		m.torn = true
		return err
	}
	m.stats.Edges[e].add(len(list), m.o.PageSize, time.Since(begun))
	m.ended(kind, begun, len(list), uint64(len(list))*uint64(m.o.PageSize))
	return nil
}

// explain says what would have to be different for an access that was refused, and
// names pages as the caller knows them.
func (m *Memory) explain(err error) error {
	var abort *tier.AbortError
	switch {
	case errors.Is(err, tier.ErrAllPinned):
		return m.pinError(1)
	case errors.As(err, &abort):
		return &VictimError{Victim: m.pageError(abort.Victim, abort.Err)}
	}
	return err
}
