package workload

import "sync"

// overlapped calls first for the ranges of [0, n) of at most size each, in order, and
// second for each range after it, with the same buffer. The two work side by side: first
// is one range ahead of second, in another buffer. After an error no range is used any more,
// and at most one is still begun.
func overlapped[T any](n, size uint64, first, second func(low uint64, buf []T) error) error {
	size = min(n, size)
	type part struct {
		low uint64
		buf []T
	}
	free, ready := make(chan []T, 2), make(chan part)
	free <- make([]T, size)
	if n > size {
		free <- make([]T, size)
	}
	stop := make(chan struct{})
	var failed error
	var ahead sync.WaitGroup
	ahead.Go(func() {
		defer close(ready)
		for low := uint64(0); low < n; low += size {
			var buf []T
			select {
			case buf = <-free:
			case <-stop:
				return
			}
			p := part{low, buf[:min(size, n-low)]}
			if failed = first(p.low, p.buf); failed != nil {
				return
			}
			select {
			case ready <- p:
			case <-stop:
				return
			}
		}
	})
	var err error
	for p := range ready {
		if err = second(p.low, p.buf); err != nil {
			close(stop)
			break
		}
		free <- p.buf[:size]
	}
	ahead.Wait()
	if err != nil {
		return err
	}
	return failed
}
