package main

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm"
)

// complete takes I/Os over that have ended.
func (w *worker) complete(done []libnvm.Completion) error {
	for _, d := range done {
		i := int(d.Tag)
		s := &w.slots[i]
		if d.Err != nil {
			if err := w.failed(d.Err); err != nil {
				return err
			}
			var late *libnvm.TimeoutError
			if !errors.As(d.Err, &late) {
				w.free = append(w.free, i)
			} else if w.measuring { // the buffer is the controller's until a reset
				w.result.latency.add(w.now - s.at)
			}
			continue
		}
		if w.measuring {
			w.ended++
			w.result.ios++
			w.result.latency.add(w.now - s.at)
		}
		if !s.write && w.verify {
			w.check(i)
		}
		w.free = append(w.free, i)
	}
	if len(w.free)+w.q.Outstanding() == 0 || w.q.Quarantined() > 0 && w.q.Quarantined() >= w.cell.depth/2 {
		return w.reset()
	}
	return nil
}

// check compares what a read brought. The first difference is kept.
func (w *worker) check(i int) {
	w.result.verified += uint64(w.cell.size)
	m := verify(w.buffer(i), w.key, w.slots[i].lba*uint64(w.ns.BlockSize))
	if m != nil && w.result.mismatch == nil {
		m.Drive, m.LBA = w.d.URI.String(), m.Offset/uint64(w.ns.BlockSize)
		w.result.mismatch = m
	}
}

// failed counts an error that an injected fault can explain, and returns any other.
func (w *worker) failed(err error) error {
	kind := ""
	var se *libnvm.StatusError
	var te *libnvm.TimeoutError
	switch {
	case errors.As(err, &se):
		kind = se.Status.String()
	case errors.As(err, &te):
		kind = timedOut
	case errors.Is(err, libnvm.ErrReset):
		return nil // part of a reset that is counted
	}
	if !w.tolerate || kind == "" {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	w.result.errors[kind]++
	if w.measuring {
		w.ended++ // as a GPU's: a drive that fails every I/O must not keep a run from ending
	}
	return nil
}

// reset makes the queue anew when buffers are lost to commands that timed out.
func (w *worker) reset() error {
	if err := w.q.Reset(); err != nil {
		return fmt.Errorf("%s: %w", w.d.URI, err)
	}
	for w.q.Poll(w.done) > 0 {
		// What was in flight ended with the reset.
	}
	w.result.resets++
	w.free = w.free[:0]
	for i := range w.slots {
		w.free = append(w.free, i)
	}
	return nil
}

// drain waits for what is in flight, at most until its deadline.
func (w *worker) drain() error {
	for idle := 1; w.q.Outstanding() > 0; idle++ {
		n := w.q.Poll(w.done)
		for _, d := range w.done[:n] {
			if d.Err == nil {
				if s := &w.slots[d.Tag]; !s.write && w.verify {
					w.check(int(d.Tag))
				}
			} else if err := w.failed(d.Err); err != nil {
				return err
			}
		}
		if n > 0 {
			idle = 0
		}
		rest(idle)
	}
	return nil
}
