package copyengtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tritier/tritier/copyeng"
)

// testOverlap has batches of several queues in flight at once, which read the
// same pages and write neighbouring ones.
func testOverlap(e *env) error {
	w, lanes, err := e.laneWorld(5)
	if err != nil {
		return err
	}
	rounds := 8
	if e.o.Short {
		rounds = 3
	}
	for round := range rounds {
		for i := range 12 * len(lanes) {
			if err := lanes[i%len(lanes)].step(); err != nil {
				return err
			}
		}
		for _, l := range lanes {
			if err := e.wait(l.q); err != nil {
				return err
			}
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("round %d of %d queues at once: %w", round, len(lanes), err)
		}
	}
	return nil
}

// laneWorld makes n lanes over as much memory as the options allow.
func (e *env) laneWorld(n int) (*world, []*lane, error) {
	bytes := uint64(min(e.o.MaxBytes/2, 32<<20))
	w, err := e.newWorld(bytes, bytes)
	if err != nil {
		return nil, nil, err
	}
	lanes, err := w.lanes(n)
	return w, lanes, err
}

// testBothWays copies large batches to the device on one queue and to the host
// on another, at the same time.
func testBothWays(e *env) error {
	bytes := uint64(min(e.o.MaxBytes/2, 64<<20))
	w, err := e.newWorld(bytes, bytes)
	if err != nil {
		return err
	}
	in, errIn := e.engine.NewQueue()
	out, errOut := e.engine.NewQueue()
	if err := errors.Join(errIn, errOut); err != nil {
		return err
	}
	hostLow, hostHigh := whole(w.host).halves()
	deviceLow, deviceHigh := whole(w.device).halves()
	for _, size := range pageSizes() {
		if err := w.poison(); err != nil {
			return err
		}
		n := min(int(bytes/4)/size, 5000)
		for range 3 {
			a := w.batch(copyeng.ToDevice, size, pairs(e.rng, copyeng.ToDevice, size, n, hostLow, deviceLow))
			b := w.batch(copyeng.ToHost, size, pairs(e.rng, copyeng.ToHost, size, n, hostHigh, deviceHigh))
			if err := errors.Join(w.copy(in, a), w.copy(out, b)); err != nil {
				return err
			}
		}
		if err := errors.Join(e.wait(in), e.wait(out)); err != nil {
			return err
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("%d pages of %d bytes both ways on two queues: %w", n, size, err)
		}
	}
	return nil
}

// exchanges are numbers of pages in and out.
var exchanges = [][2]int{{0, 0}, {0, 5}, {7, 0}, {1, 1}, {1, 64}, {64, 1}, {60, 61}, {255, 255}, {480, 1000}, {1025, 481}, {3000, 3000}}

// testExchange exchanges unequal numbers of pages, which lie among each other,
// and batches of different page sizes.
func testExchange(e *env) error {
	for _, size := range pageSizes() {
		for _, n := range exchanges {
			pages := n[0] + n[1] + 4
			if int64(2*pages*size) > e.o.MaxBytes {
				break
			}
			if err := e.exchangeOnce(size, n[0], n[1], pages); err != nil {
				return fmt.Errorf("exchange of %d pages in and %d out of %d bytes: %w", n[0], n[1], size, err)
			}
		}
	}
	w, lanes, err := e.laneWorld(1)
	if err != nil {
		return err
	}
	for range 40 {
		if err := lanes[0].exchangeStep(); err != nil {
			return err
		}
	}
	return errors.Join(e.wait(lanes[0].q), w.verify())
}

// exchangeOnce exchanges pages once: which are in and which out is drawn, so
// that they lie among each other.
func (e *env) exchangeOnce(size, in, out, pages int) error {
	w, err := e.newWorld(uint64(pages*size), uint64(pages*size))
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	list := make([]copyeng.Pair, pages)
	device := e.rng.Perm(pages)
	for i, host := range e.rng.Perm(pages) {
		list[i] = copyeng.Pair{Host: uint32(host), Device: uint32(device[i])}
	}
	a := w.batch(copyeng.ToDevice, size, list[:in])
	b := w.batch(copyeng.ToHost, size, list[in:][:out])
	if err := w.exchange(q, a, b); err != nil {
		return err
	}
	if err := e.wait(q); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	return errors.Join(q.Close(), w.drop())
}

// testOneQueue lets goroutines share a queue, testManyQueues gives each its
// own. Each waits for its own batches and then looks at its own memory.
func testOneQueue(e *env) error   { return e.concurrent(true) }
func testManyQueues(e *env) error { return e.concurrent(false) }

func (e *env) concurrent(share bool) error {
	w, lanes, err := e.laneWorld(6)
	if err != nil {
		return err
	}
	rounds := 12
	if e.o.Short {
		rounds = 4
	}
	errs := make([]error, len(lanes)+1)
	var wg sync.WaitGroup
	for i, l := range lanes {
		if share {
			l.q = lanes[0].q
		}
		wg.Go(func() { errs[i] = l.drive(rounds) })
	}
	wg.Go(func() { errs[len(lanes)] = e.churn(rounds) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.verify()
}

// drive is one of several goroutines at work.
func (l *lane) drive(rounds int) error {
	for range rounds {
		for range 1 + l.r.IntN(6) {
			if err := l.step(); err != nil {
				return err
			}
		}
		if err := l.wait(l.q); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return fmt.Errorf("with other goroutines at work: %w", err)
		}
	}
	return nil
}

// churn makes and closes queues and spaces meanwhile, and asks the engine.
func (e *env) churn(rounds int) error {
	for range 2 * rounds {
		q, err := e.engine.NewQueue()
		if err != nil {
			return err
		}
		s, err := e.engine.Allocate(copyeng.MaxPage)
		if err != nil {
			return errors.Join(err, q.Close())
		}
		e.engine.Stats()
		e.engine.Choose(copyeng.ToHost, 4096, 77)
		if err := errors.Join(q.Close(), s.Close()); err != nil {
			return err
		}
	}
	return nil
}
