package copyengtest

import (
	"fmt"

	"github.com/tritier/tritier/copyeng"
)

// counts are the numbers of pages that are tried: none, one, few, those around
// what engines treat differently, and many.
var (
	counts      = []int{0, 1, 2, 3, 7, 59, 60, 61, 64, 255, 479, 480, 481, 1000, 1025, 5000}
	countsShort = []int{0, 1, 3, 60, 61, 481, 1000}
)

// testScatter copies n scattered pages, for all page sizes, numbers and
// directions that fit, and compares all of both spaces each time.
func testScatter(e *env) error {
	numbers, tried := counts, 0
	if e.o.Short {
		numbers = countsShort
	}
	for _, size := range pageSizes() {
		for _, n := range numbers {
			hosts, devices := n+n/4+3, n+n/3+2
			if int64(hosts+devices)*int64(size) > e.o.MaxBytes {
				break
			}
			tried++
			if err := e.scatter(size, n, hosts, devices); err != nil {
				return err
			}
		}
	}
	e.Logf("%d combinations of page size and number, each way", tried)
	if tried < len(pageSizes())*2 {
		return fmt.Errorf("only %d combinations fit in %d bytes: raise Options.MaxBytes", tried, e.o.MaxBytes)
	}
	return nil
}

func (e *env) scatter(size, n, hosts, devices int) error {
	// Spaces end with a part of a page, which no page number names.
	w, err := e.newWorld(uint64(hosts*size+size/2), uint64(devices*size+size/2))
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
		b := w.batch(d, size, pairs(e.rng, d, size, n, whole(w.host), whole(w.device)))
		if err := w.copyAndVerify(q, b); err != nil {
			return fmt.Errorf("%s: %w", describe(b), err)
		}
		if err := w.poison(); err != nil {
			return err
		}
	}
	if err := q.Close(); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	return w.drop()
}

// copyAndVerify starts a batch, waits for it and looks at all memory.
func (w *world) copyAndVerify(q copyeng.Queue, b *copyeng.Batch) error {
	if err := w.copy(q, b); err != nil {
		return err
	}
	if err := w.wait(q); err != nil {
		return err
	}
	return w.verify()
}

// testRoundTrip takes pages to the device and back to other places, by
// different page sizes, without Options.ReadDevice in between.
func testRoundTrip(e *env) error {
	bytes := uint64(min(e.o.MaxBytes/4, 8<<20))
	w, err := e.newWorld(2*bytes, bytes)
	if err != nil {
		return err
	}
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	low, high := whole(w.host).halves()
	for _, size := range pageSizes() {
		n := min(int(bytes)/size, 1000)
		for _, step := range []struct {
			d    copyeng.Direction
			host span
			size int
		}{{copyeng.ToDevice, low, size}, {copyeng.ToHost, high, min(2*size, copyeng.MaxPage)}} {
			pages := min(n, int(bytes)/step.size)
			b := w.batch(step.d, step.size, pairs(e.rng, step.d, step.size, pages, step.host, whole(w.device)))
			if err := w.copy(q, b); err != nil {
				return err
			}
		}
		if err := e.wait(q); err != nil {
			return err
		}
		if err := w.verify(); err != nil {
			return fmt.Errorf("%d pages of %d bytes to the device and back by twice that size: %w", n, size, err)
		}
	}
	return nil
}

// testFar copies pages beyond 4 GiB: an offset cut to 32 bits falls into
// the low window, which is compared too.
func testFar(e *env) error {
	if !e.o.Far {
		e.Logf("skipped: Options.Far is not set")
		return nil
	}
	const far, room = 4 << 30, 4 << 20
	w := &world{env: e}
	e.worlds = append(e.worlds, w)
	host, err := e.engine.AllocateHost(far + room)
	if err != nil {
		return err
	}
	w.host = newMemory("host", host, &e.o, farWindows(far, room)...)
	w.around = w.host
	device, err := e.engine.Allocate(far + room)
	if err != nil {
		return err
	}
	w.device = newMemory("device", device, &e.o, farWindows(far, room)...)
	q, err := e.engine.NewQueue()
	if err != nil {
		return err
	}
	high := span{far, far + room}
	for _, size := range []int{512, 4096, 65536, copyeng.MaxPage} {
		for _, n := range []int{1, min(room/size, 100), min(room/size, 1100)} {
			for _, d := range []copyeng.Direction{copyeng.ToDevice, copyeng.ToHost} {
				if err := w.poison(); err != nil {
					return err
				}
				b := w.batch(d, size, pairs(e.rng, d, size, n, high, high))
				if err := w.copyAndVerify(q, b); err != nil {
					return fmt.Errorf("%s beyond 4 GiB: %w", describe(b), err)
				}
			}
		}
	}
	return nil
}

func farWindows(far, room uint64) []window {
	return []window{{0, make([]uint64, room/granule)}, {far, make([]uint64, room/granule)}}
}
