package copyengtest

import (
	"fmt"

	"github.com/tritier/tritier/copyeng"
)

// testOrder writes device pages, reads them back, overwrites them, and reads
// them back to another place, without a wait: each batch must see what those
// before it did. Numbers of pages mix, since engines take different paths for
// them.
func testOrder(e *env) error {
	const size = 2048
	numbers := []int{1, 2, 60, 61, 500, 1025}
	if e.o.Short {
		numbers = []int{1, 61, 1025}
	}
	w, err := e.newWorld(4*1025*size, 1025*size)
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	for _, n := range numbers {
		for _, m := range numbers {
			if err := w.poison(); err != nil {
				return err
			}
			if err := w.pingPong(q, size, n, m); err != nil {
				return fmt.Errorf("write and read back %d and %d pages of %d bytes by turns: %w", n, m, size, err)
			}
		}
	}
	return nil
}

// pingPong uses four parts of the host space: pages of the first go to the
// device and from there to the second; those of the third, to the same device
// pages and from there to the fourth. The pairs are one slice, used again.
func (w *world) pingPong(q copyeng.Queue, size, n, m int) error {
	low, high := whole(w.host).halves()
	first, second := low.halves()
	third, fourth := high.halves()
	list := make([]copyeng.Pair, 0, max(n, m))
	for _, step := range []struct {
		d    copyeng.Direction
		n    int
		host span
	}{
		{copyeng.ToDevice, n, first}, {copyeng.ToHost, m, second},
		{copyeng.ToDevice, m, third}, {copyeng.ToHost, n, fourth},
	} {
		list = list[:0]
		start, _ := step.host.pages(size)
		for i, page := range w.rng.Perm(step.n) {
			list = append(list, copyeng.Pair{Host: start + uint32(i), Device: uint32(page)})
		}
		if err := w.copy(q, w.batch(step.d, size, list)); err != nil {
			return err
		}
	}
	if err := w.wait(q); err != nil {
		return err
	}
	return w.verify()
}

// testOrderRandom starts many random batches and exchanges on one queue, of all
// page sizes and over the same memory, and waits rarely.
func testOrderRandom(e *env) error {
	w, err := e.newWorld(uint64(min(e.o.MaxBytes/2, 12<<20)), uint64(min(e.o.MaxBytes/2, 10<<20)))
	if err != nil {
		return err
	}
	lanes, err := w.lanes(1)
	if err != nil {
		return err
	}
	rounds, steps := 12, 100
	if e.o.Short {
		rounds, steps = 4, 60
	}
	for round := range rounds {
		for range steps {
			if err := lanes[0].step(); err != nil {
				return err
			}
		}
		if err := e.wait(lanes[0].q); err != nil {
			return err
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("after %d random batches on one queue: %w", (round+1)*steps, err)
		}
	}
	return nil
}
