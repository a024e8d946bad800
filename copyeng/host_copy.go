package copyeng

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// hostChunk is the payload, in bytes, that a goroutine takes at a time: about
// 20 us of copying, several times what it costs to start a helper.
const hostChunk = 256 << 10

// carryOut copies the batches of a job, all at once. Those that fail change
// nothing.
func (h *Host) carryOut(job []Batch) (errs []error) {
	if h.fault != nil {
		job = slices.Clone(job) // the list in the queue stays as it is
		job = slices.DeleteFunc(job, func(b Batch) bool {
			err := h.fault(&b)
			if err != nil {
				errs = append(errs, fmt.Errorf("copy of %d pages of %d bytes %s: %w", len(b.Pairs), b.PageSize, b.Dir, err))
			}
			return err != nil
		})
	}
	var chunks []Batch
	for _, b := range job {
		for part := range slices.Chunk(b.Pairs, max(1, hostChunk/b.PageSize)) {
			b.Pairs = part
			chunks = append(chunks, b)
		}
	}
	h.move(chunks)
	return errs
}

// move copies chunks, with as many helpers as are free and of use.
func (h *Host) move(chunks []Batch) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1); i <= int64(len(chunks)); i = next.Add(1) {
			chunks[i-1].copyPages()
		}
	}
	var wg sync.WaitGroup
	for range min(len(chunks)-1, cap(h.helpers)) {
		if !h.helper(&wg, work) {
			break
		}
	}
	work()
	wg.Wait()
}

// helper runs work on a goroutine of its own if the engine may have another.
func (h *Host) helper(wg *sync.WaitGroup, work func()) bool {
	select {
	case h.helpers <- struct{}{}:
	default:
		return false
	}
	wg.Go(func() {
		defer func() { <-h.helpers }()
		work()
	})
	return true
}

// copyPages is the copy itself.
func (b *Batch) copyPages() {
	size := uint64(b.PageSize)
	for _, p := range b.Pairs {
		host := b.Host.bytes[uint64(p.Host)*size:][:size]
		device := b.Device.bytes[uint64(p.Device)*size:][:size]
		if b.Dir == ToDevice {
			copy(device, host)
		} else {
			copy(host, device)
		}
	}
}
