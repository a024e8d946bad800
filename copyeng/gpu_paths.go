package copyeng

import (
	"errors"

	"github.com/tritier/tritier/cuda"
)

// memcpy starts one copy a page.
func (q *gpuQueue) memcpy(b *Batch) error {
	shift, size, base := shiftOf(b), uint64(b.PageSize), cuda.Ptr(b.Device.addr)
	one := func(p Pair) error {
		at := base.Add(uint64(p.Device) << shift)
		if b.Dir == ToDevice {
			return q.stream.CopyHtoD(at, b.Host.hostPage(p.Host, shift), size)
		}
		return q.stream.CopyDtoH(b.Host.hostPage(p.Host, shift), at, size)
	}
	for _, p := range b.Pairs {
		if err := one(p); err != nil {
			return err
		}
	}
	return nil
}

// batch starts one batched copy on a stream. c is scratch.
func (q *gpuQueue) batch(c *cuda.CopyBatch, s *cuda.Stream, b *Batch, pairs []Pair) error {
	shift, size := shiftOf(b), uint64(b.PageSize)
	c.Reset()
	for _, p := range pairs {
		host, device := b.Host.addr+uint64(p.Host)<<shift, b.Device.addr+uint64(p.Device)<<shift
		if b.Dir == ToDevice {
			c.Add(device, host, size)
		} else {
			c.Add(host, device, size)
		}
	}
	return s.CopyBatch(c)
}

// spread deals the pages over n streams, of which one is the queue's own.
func (q *gpuQueue) spread(b *Batch, n int) error {
	n = min(n, len(b.Pairs))
	if err := q.branch(n - 1); err != nil {
		return err
	}
	streams := [4]*cuda.Stream{}
	for i, s := range q.sides[:n-1] {
		streams[i] = s.stream
	}
	streams[n-1] = q.stream
	// Joined also after an error: what has been started must be waited for.
	return errors.Join(q.deal(&q.calls[0], b, streams[:n]...), q.join(n-1))
}

// hybrid gives percent of the pages to the copy engines and the rest to a
// kernel. The kernel goes first: starting the batch takes the CPU far longer.
func (q *gpuQueue) hybrid(b *Batch, percent int) error {
	k := len(b.Pairs) * percent / 100
	if k == 0 {
		return q.kernel(b, b.Pairs)
	}
	if err := q.branch(1); err != nil {
		return err
	}
	err := q.kernel(b, b.Pairs[k:])
	if err == nil {
		err = q.batch(&q.calls[0], q.sides[0].stream, b, b.Pairs[:k])
	}
	return errors.Join(err, q.join(1))
}

// branch lets n side streams start after what the queue's stream has so far.
// join must follow, also after an error of what is put into them.
func (q *gpuQueue) branch(n int) error {
	if n == 0 {
		return nil
	}
	var err error
	if q.fork == nil {
		if q.fork, err = q.engine.ctx.NewEvent(false); err != nil {
			return err
		}
	}
	for len(q.sides) < n {
		if err := q.addSide(); err != nil {
			return err
		}
	}
	if err := q.fork.Record(q.stream); err != nil {
		return err
	}
	for _, s := range q.sides[:n] {
		if err := s.stream.WaitEvent(q.fork); err != nil {
			return err // so far they wait, and have nothing to do
		}
	}
	q.loose = n
	q.state.Lock()
	q.used, q.turn = max(q.used, n), q.turn+1
	q.state.Unlock()
	return nil
}

func (q *gpuQueue) addSide() error {
	s, err := q.engine.ctx.NewStream()
	if err != nil {
		return err
	}
	e, err := q.engine.ctx.NewEvent(false)
	if err != nil {
		_ = s.Close() // empty; the first error says more
		return err
	}
	q.state.Lock()
	q.sides = append(q.sides, sideStream{s, e})
	q.state.Unlock()
	return nil
}

// join lets the queue's stream go on only after the n side streams, of which
// none is left out because of another's error. Those that are not joined stay
// loose, and nothing is started before they are: it would overtake them.
func (q *gpuQueue) join(n int) error {
	var err error
	q.loose = 0
	for i, s := range q.sides[:n] {
		if e := q.joinSide(s); e != nil {
			err, q.loose = errors.Join(err, e), i+1
		}
	}
	return err
}

func (q *gpuQueue) joinSide(s sideStream) error {
	if err := s.done.Record(s.stream); err != nil {
		return err
	}
	return q.stream.WaitEvent(s.done)
}

// kernel starts a zero-copy kernel for pages of b.
func (q *gpuQueue) kernel(b *Batch, pairs []Pair) error {
	n, shift := uint32(len(pairs)), uint32(shiftOf(b))
	toDevice := uint32(0)
	if b.Dir == ToDevice {
		toDevice = 1
	}
	cfg := cuda.LaunchConfig{Grid: cuda.D1(q.blocks(len(pairs), b.PageSize, q.engine.blocks)), Block: cuda.D1(blockThreads)}
	host, device := cuda.Ptr(b.Host.addr), cuda.Ptr(b.Device.addr)
	if n <= inlinePairs {
		copy(q.inline[:], pairs)
		return q.engine.kernels.CopyInline(q.stream, cfg, host, device, &q.inline, n, shift, toDevice)
	}
	list, err := q.lists.put(pairs)
	if err != nil {
		return err
	}
	if err := q.engine.kernels.CopyList(q.stream, cfg, host, device, list, n, shift, toDevice); err != nil {
		q.lists.drop()
		return err
	}
	return q.launched()
}

// launched marks the lists as read by the kernel just started.
func (q *gpuQueue) launched() error {
	err := q.lists.inUse()
	q.keep(q.lists.reap()) // of earlier kernels: not this call's error
	return err
}

// exchangeBatches starts both directions by batched calls over four streams
// each. Starting a batch takes the CPU about as long as its pages take the
// link, so that one thread alone would hold the copies up: four goroutines each
// start the half of a direction.
func (q *gpuQueue) exchangeBatches(in, out Batch) error {
	if err := q.branch(2*exchangeStreams - 1); err != nil {
		return err
	}
	lanes := make([]*cuda.Stream, 0, 2*exchangeStreams)
	for _, s := range q.sides[:2*exchangeStreams-1] {
		lanes = append(lanes, s.stream)
	}
	lanes = append(lanes, q.stream)
	started := make(chan error, submitters-1)
	half := func(i int) error { // 0 and 1 to the host, 2 and 3 to the device
		part := out
		if i >= submitters/2 {
			part = in
		}
		part.Pairs = share(part.Pairs, i%2, 2)
		const each = 2 * exchangeStreams / submitters
		return q.deal(&q.calls[i], &part, lanes[i*each:(i+1)*each]...)
	}
	for i := range submitters - 1 {
		go func() { started <- half(i) }()
	}
	err := half(submitters - 1)
	for range submitters - 1 {
		err = errors.Join(err, <-started)
	}
	return errors.Join(err, q.join(2*exchangeStreams-1))
}

const (
	exchangeStreams = 4 // of each direction
	submitters      = 4 // goroutines
)

// deal starts equal parts of a batch on streams.
func (q *gpuQueue) deal(scratch *cuda.CopyBatch, b *Batch, streams ...*cuda.Stream) error {
	for i, s := range streams {
		if err := q.batch(scratch, s, b, share(b.Pairs, i, len(streams))); err != nil {
			return err
		}
	}
	return nil
}

// exchangeBlocks balances the two directions on an H200 with pages of 64 KiB:
// with many more blocks the writes crowd out the read requests.
const exchangeBlocks = 32

func (q *gpuQueue) exchangeKernel(in, out *Batch) error {
	sides := [2]side{}
	for i, b := range []*Batch{in, out} {
		list, err := q.lists.put(b.Pairs)
		if err != nil {
			q.lists.drop() // of the first, if this is the second
			return err
		}
		sides[i] = side{Host: b.Host.addr, Device: b.Device.addr, List: uint64(list), Pages: uint32(len(b.Pairs)), Shift: uint32(shiftOf(b))}
	}
	pieces := max(len(in.Pairs)*in.PageSize, len(out.Pairs)*out.PageSize)
	cfg := cuda.LaunchConfig{Grid: cuda.D1(q.blocks(1, pieces, min(exchangeBlocks, q.engine.blocks))), Block: cuda.D1(blockThreads)}
	if err := q.engine.kernels.Exchange(q.stream, cfg, &sides[0], &sides[1]); err != nil {
		q.lists.drop()
		return err
	}
	return q.launched()
}

// blocks is the grid for n pages: a warp for each piece, up to limit.
func (q *gpuQueue) blocks(n, page, limit int) uint32 {
	pieces := n * max(1, page/pieceBytes)
	warps := blockThreads / 32
	return uint32(max(1, min(limit, (pieces+warps-1)/warps)))
}
