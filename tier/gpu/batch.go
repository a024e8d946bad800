package gpu

import (
	"context"
	"runtime"
	"sync"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
)

// batch is a batch call in parts, each one launch. Elements in ordinary memory go through
// a stage of two halves: while a kernel uses one, the host copies out of the other what the
// last kernel has read, and into it what the next one is to write.
type batch struct {
	e     *Engine
	op    tier.Op
	buf   Buffer
	shift uint8                  // log2 of an element's bytes
	n     uint64                 // elements
	most  func(at uint64) uint64 // elements that the part which begins with number at may have
	// launch has a kernel move n elements from number at on from or to where.
	launch func(at, n uint64, where cuda.Ptr) error
	left   func(n uint64) int // accesses that the last n elements count as when they are not tried
}

// part is elements at..at+n of a batch.
type part struct{ at, n uint64 }

// run runs the parts until one has waited in vain. The caller has mu.
func (b *batch) run(ctx context.Context) error {
	var failed AccessError
	var last part
	now := b.from(0)
	b.copyIn(now, 0)
	for k := 0; now.n > 0; k++ {
		next := b.from(now.at + now.n)
		copied := b.beside(last, next, k+1)
		err := b.e.call(ctx, b.buf.Stream, func() error { return b.launch(now.at, now.n, b.where(now, k)) })
		copied()
		if !failed.take(err) {
			return err
		}
		last = now
		if failed.ended {
			failed.Failed += b.left(b.n - now.at - now.n)
			b.copyOut(last, k)
			return failed.orNil()
		}
		now = next
		if now.n == 0 {
			b.copyOut(last, k)
		}
	}
	return failed.orNil()
}

func (b *batch) from(at uint64) part {
	if at >= b.n {
		return part{at, 0}
	}
	return part{at, min(b.n-at, b.most(at))}
}

// staged says whether elements go through the stage.
func (b *batch) staged() bool { return b.buf.Bytes != nil && b.op != tier.Prefetch }

// where is what the k-th kernel moves elements from or to.
func (b *batch) where(p part, k int) cuda.Ptr {
	if b.staged() {
		return b.e.stage.DevicePtr().Add(uint64(k % 2 * b.e.half()))
	}
	return b.buf.Device.Add(p.at << b.shift)
}

// sides are a part's bytes in the caller's memory and in the half for the k-th kernel.
func (b *batch) sides(p part, k int) (mine, stage []byte) {
	return b.buf.Bytes[p.at<<b.shift : (p.at+p.n)<<b.shift], b.e.stage.Bytes()[k%2*b.e.half():][:p.n<<b.shift]
}

// copyIn copies what a part writes. Also for reads: what fails keeps its value.
func (b *batch) copyIn(p part, k int) {
	if b.staged() && p.n > 0 {
		mine, stage := b.sides(p, k)
		copyWide(stage, mine)
	}
}

// copyOut copies what a part has read.
func (b *batch) copyOut(p part, k int) {
	if b.staged() && p.n > 0 && b.op == tier.Read {
		mine, stage := b.sides(p, k)
		copyWide(mine, stage)
	}
}

// beside copies the last part out of one half and the next one into it, for the k-th
// kernel. The function that it returns waits for that.
func (b *batch) beside(last, next part, k int) (copied func()) {
	if !b.staged() || next.n == 0 && (last.n == 0 || b.op != tier.Read) {
		return func() {}
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		b.copyOut(last, k)
		b.copyIn(next, k)
	})
	return wait.Wait
}

// perCopier is what makes it worth while to copy by one more goroutine.
const perCopier = 2 << 20

// copyWide copies len(dst) bytes by several goroutines, since one moves less than PCIe does.
func copyWide(dst, src []byte) {
	n := min(len(dst)/perCopier, 4, runtime.GOMAXPROCS(0))
	if n <= 1 {
		copy(dst, src)
		return
	}
	var wait sync.WaitGroup
	for i := range n {
		low, high := len(dst)/n*i, len(dst)/n*(i+1)
		if i == n-1 {
			high = len(dst)
		}
		wait.Go(func() { copy(dst[low:high], src[low:high]) })
	}
	wait.Wait()
}

// half is the size of each half of the stage, in bytes.
func (e *Engine) half() int { return len(e.stage.Bytes()) / 2 }
