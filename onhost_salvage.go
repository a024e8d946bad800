package tritier

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/tritier/tritier/tier/host"
)

// salvage begins to write what a memory keeps that broke with err, since a drive neither answers
// nor can be reset. It does so through a queue and memory of its own: slots of T2 may still be
// read and written by that drive.
func (o *onHost) salvage(ctx context.Context, err error) error {
	silent, failed := o.t3.end(context.WithoutCancel(ctx))
	if failed != nil {
		return errors.Join(err, failed)
	}
	kept := o.mem.Kept()
	s := &salvage{cfg: o.cfg, v: o.t3.v, silent: silent, saved: &o.saved, resets: &o.resets}
	s.read = func(_ context.Context, number int, dst []byte) error { return o.tiers.read(&kept[number], dst) }
	for i := range kept {
		k := &kept[i]
		s.pages = append(s.pages, unsavedPage{array: k.Array, name: k.Name, page: k.Page, drive: o.t3.Drive(k.Array, k.Page), number: i})
	}
	if failed := s.open(maps.Clone(o.t3.arrays)); failed != nil {
		return errors.Join(err, failed)
	}
	o.rest = s
	return o.rest.write(ctx)
}

// end waits for what is in flight, until it should have ended, and resets the drives: what they have
// not answered then is old, and must not come after what is written from now on. It
// returns the drives, by number, that could not be reset.
func (t *tier3) end(ctx context.Context) (silent map[int]error, err error) {
	for until := time.Now().Add(t.timeout); !t.q.Idle() && time.Now().Before(until); time.Sleep(time.Millisecond) {
		t.q.Poll()
	}
	silent = notReset(t.v, t.Recover(ctx))
	t.q.Poll() // takes what the reset has ended
	if !t.q.Idle() {
		return nil, errors.New("nothing else was written, since requests of before have not ended")
	}
	return silent, nil
}

// read copies a page to dst, from T1 or T2.
func (t *tiers) read(p *host.KeptPage, dst []byte) error {
	if p.InT2 {
		copy(dst, t.t2.Bytes()[int(p.Index)*t.page:][:t.page])
		return nil
	}
	return t.Load(host.Buffer{Bytes: dst}, []host.Piece{{Frame: p.Index, Length: int32(t.page)}})
}
