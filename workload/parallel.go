package workload

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls f for parts of [0, n) from as many goroutines as there are processors,
// until ctx ends. What f computes must not depend on the others.
func parallel(ctx context.Context, n, part uint64, f func(low, high uint64)) error {
	type none struct{}
	return workers(ctx, n, part, func() none { return none{} }, func(_ none, low, high uint64) { f(low, high) }, func(none) {})
}

// workers is parallel where each goroutine has something of its own, from start, which it
// hands over to end. start and end are called by several at once.
func workers[S any](ctx context.Context, n, part uint64, start func() S, f func(s S, low, high uint64), end func(S)) error {
	var next atomic.Uint64
	work := func() {
		s := start()
		for ctx.Err() == nil {
			low := next.Add(part) - part
			if low >= n {
				break
			}
			f(s, low, min(low+part, n))
		}
		end(s)
	}
	count := min(uint64(runtime.GOMAXPROCS(0)), (n+part-1)/part)
	if count <= 1 {
		work()
		return ctx.Err()
	}
	var all sync.WaitGroup
	for range count {
		all.Go(work)
	}
	all.Wait()
	return ctx.Err()
}

// perPart is the number of elements that a goroutine takes at a time.
const perPart = 1 << 14

// rowsPerPart is perPart in rows.
func rowsPerPart(cols uint64) uint64 { return max(perPart/cols, 1) }

// generated fills dst with values from number first on, in parallel.
func generated[T any](ctx context.Context, first uint64, dst []T, values func(first uint64, dst []T)) error {
	return parallel(ctx, uint64(len(dst)), perPart, func(low, high uint64) { values(first+low, dst[low:high]) })
}

// made is a slice of n values of the generator.
func made[T any](ctx context.Context, n uint64, values func(first uint64, dst []T)) ([]T, error) {
	s := make([]T, n)
	return s, generated(ctx, 0, s, values)
}
