package copyengtest

import (
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier/copyeng"
)

// refusal is a batch that no engine may take.
type refusal struct {
	what   string
	spoil  func(b *copyeng.Batch)
	closed bool // the error is ErrClosed, else a *BatchError
}

// testRefusals starts batches that are wrong in one thing each: they must fail
// with a typed error, and neither they nor the other side of an exchange may
// copy anything.
func testRefusals(e *env) error {
	const size, pages = 4096, 20
	w, err := e.newWorld(pages*size+size/2, (pages+3)*size+size/2)
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	list, end, err := w.refusals(pages, pages+3)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := w.refused(q, r, size); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
	}
	return errors.Join(w.refusedExchange(q, size), e.wait(q), w.verify(), end())
}

// refusals are the wrong batches; end closes the engine that one of them uses.
func (w *world) refusals(hosts, devices uint32) (list []refusal, end func() error, err error) {
	other := w.open()
	foreignHost, err1 := other.AllocateHost(1 << 20)
	foreignDevice, err2 := other.Allocate(1 << 20)
	closedHost, err3 := w.engine.AllocateHost(1 << 20)
	closedDevice, err4 := w.engine.Allocate(1 << 20)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, errors.Join(err, other.Close())
	}
	end = func() error { return errors.Join(foreignHost.Close(), foreignDevice.Close(), other.Close()) }
	if err := errors.Join(closedHost.Close(), closedDevice.Close()); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	set := func(what string, spoil func(b *copyeng.Batch)) { list = append(list, refusal{what, spoil, false}) }
	set("no such direction", func(b *copyeng.Batch) { b.Dir = 2 })
	set("no such direction", func(b *copyeng.Batch) { b.Dir = 255 })
	for _, size := range []int{0, 1, 256, 511, 768, 4095, 4097, 3 << 10, 4 << 20, -4096, math.MinInt} {
		set(fmt.Sprintf("page size %d", size), func(b *copyeng.Batch) { b.PageSize = size })
	}
	set("no host space", func(b *copyeng.Batch) { b.Host = nil })
	set("no device space", func(b *copyeng.Batch) { b.Device = nil })
	set("empty host space", func(b *copyeng.Batch) { b.Host = new(copyeng.Space) })
	set("spaces exchanged", func(b *copyeng.Batch) { b.Host, b.Device = b.Device, b.Host })
	set("host space as device space", func(b *copyeng.Batch) { b.Device = b.Host })
	set("device space as host space", func(b *copyeng.Batch) { b.Host = b.Device })
	set("host space of another engine", func(b *copyeng.Batch) { b.Host = foreignHost })
	set("device space of another engine", func(b *copyeng.Batch) { b.Device = foreignDevice })
	for _, k := range []uint32{0, 1, 1 << 20, math.MaxUint32 - max(hosts, devices)} {
		set(fmt.Sprintf("host page %d of %d", hosts+k, hosts), func(b *copyeng.Batch) { b.Pairs[len(b.Pairs)-1].Host = hosts + k })
		set(fmt.Sprintf("device page %d of %d", devices+k, devices), func(b *copyeng.Batch) { b.Pairs[len(b.Pairs)/2].Device = devices + k })
	}
	set("pages larger than the spaces", func(b *copyeng.Batch) { b.PageSize = copyeng.MaxPage })
	set("too many pages", func(b *copyeng.Batch) { b.Pairs = make([]copyeng.Pair, copyeng.MaxPages+1) })
	set("no pages, of another engine", func(b *copyeng.Batch) { b.Host, b.Pairs = foreignHost, nil })
	list = append(list,
		refusal{"closed host space", func(b *copyeng.Batch) { b.Host = closedHost }, true},
		refusal{"closed device space", func(b *copyeng.Batch) { b.Device = closedDevice }, true})
	return list, end, nil
}

// refused tries a wrong batch by Copy, and as either side of an exchange
// whose other side is right.
func (w *world) refused(q copyeng.Queue, r refusal, size int) error {
	for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
		bad := w.fresh(d, size, 0)
		r.spoil(bad)
		if _, err := q.Copy(bad); !r.is(err) {
			return fmt.Errorf("copy fails with %v (%T)", err, err)
		}
	}
	in, out := w.fresh(copyeng.ToDevice, size, 0), w.fresh(copyeng.ToHost, size, 9)
	r.spoil(in)
	if _, err := q.Exchange(in, out); !r.is(err) {
		return fmt.Errorf("exchange with it as the first batch fails with %v (%T)", err, err)
	}
	in, out = w.fresh(copyeng.ToDevice, size, 0), w.fresh(copyeng.ToHost, size, 9)
	r.spoil(out)
	if _, err := q.Exchange(in, out); !r.is(err) {
		return fmt.Errorf("exchange with it as the second batch fails with %v (%T)", err, err)
	}
	return nil
}

// is says whether err is the typed error that the refusal should give.
func (r refusal) is(err error) bool {
	if r.closed {
		return errors.Is(err, copyeng.ErrClosed)
	}
	var wrong *copyeng.BatchError
	return errors.As(err, &wrong) && wrong.Field != "" && wrong.What != ""
}

// fresh makes a batch of nine pages that nothing is wrong with.
func (w *world) fresh(d copyeng.Direction, size int, first uint32) *copyeng.Batch {
	list := make([]copyeng.Pair, 9)
	for i := range list {
		list[i] = copyeng.Pair{Host: first + uint32(i), Device: first + uint32(i)}
	}
	return w.batch(d, size, list)
}

// refusedExchange tries what is wrong with the two together, and no batch.
func (w *world) refusedExchange(q copyeng.Queue, size int) error {
	batch := refusal{what: "batch"}
	in, out := w.fresh(copyeng.ToDevice, size, 0), w.fresh(copyeng.ToHost, size, 9)
	for _, pair := range [][2]*copyeng.Batch{{out, in}, {in, in}, {out, out}, {nil, out}, {in, nil}, {nil, nil}} {
		if _, err := q.Exchange(pair[0], pair[1]); !batch.is(err) {
			return fmt.Errorf("exchange with wrong or missing sides fails with %v (%T)", err, err)
		}
	}
	if _, err := q.Copy(nil); !batch.is(err) {
		return fmt.Errorf("copy without a batch fails with %v (%T)", err, err)
	}
	return nil
}

// testChoices asks for choices, and compares them with what batches take.
func testChoices(e *env) error {
	w, err := e.newWorld(1<<20, 1<<20)
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
		for _, size := range pageSizes() {
			for _, n := range counts {
				c := e.engine.Choose(d, size, n)
				if err := w.checkChoice(c, n); err != nil {
					return err
				}
				if n > 0 && (c.Dir != d || c.Page != size || c.Pages != n || c.Why() == "" || c.Source == "") {
					return fmt.Errorf("choice for %d pages of %d bytes %s: %+v (%s)", n, size, d, c, c.Why())
				}
			}
		}
		for _, bad := range []copyeng.Choice{e.engine.Choose(d, 768, 5), e.engine.Choose(d, 4096, -1), e.engine.Choose(9, 4096, 1)} {
			if bad.Path != copyeng.PathNone {
				return fmt.Errorf("path %q for what cannot be copied", bad.Path)
			}
		}
		b := w.batch(d, 4096, pairs(e.rng, d, 4096, 30, whole(w.host), whole(w.device)))
		c, err := q.Copy(b)
		if err != nil {
			return err
		}
		e.count(b)
		w.apply(d, b.PageSize, b.Pairs)
		if asked := e.engine.Choose(d, 4096, 30); asked.Path != c.Path {
			return fmt.Errorf("%s goes by %s, the engine would choose %s", describe(b), c.Path, asked.Path)
		}
		if err := e.wait(q); err != nil {
			return err
		}
	}
	return w.verify()
}
