package libnvm

import (
	"errors"
	"fmt"
	"unsafe"
)

// QueueConfig says how to make an I/O queue pair.
type QueueConfig struct {
	// ID is the queue identifier, or 0 for the lowest that is free.
	ID uint16
	// Depth is the number of entries, 2 to Controller.MaxDepth; one less can
	// be outstanding. 0 means 1024, or MaxDepth if that is less.
	Depth int
	// CMB puts the submission queue into the controller memory buffer.
	CMB bool
	// SQ and CQ are the caller's memory for the rings, or nil. They must be
	// zero, contiguous, and stay until the queue pair is closed.
	SQ, CQ *Memory
}

// CreateQueuePair makes an I/O queue pair. It belongs to one goroutine at a time.
func (c *Controller) CreateQueuePair(cfg QueueConfig) (*QueuePair, error) {
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if s := c.State(); s != StateReady {
		return nil, fmt.Errorf("libnvm: create a queue pair: the controller is %s: %w", s, ErrClosed)
	}
	if cfg.Depth == 0 {
		cfg.Depth = min(1024, c.MaxDepth())
	}
	if cfg.Depth < 2 || cfg.Depth > c.MaxDepth() {
		return nil, &UnsupportedError{fmt.Sprintf("a queue of %d entries", cfg.Depth), fmt.Sprintf("the controller takes 2 to %d", c.MaxDepth())}
	}
	id, err := c.chooseID(cfg.ID)
	if err != nil {
		return nil, err
	}
	q := newQueuePair(c, id, cfg.Depth)
	if err := q.allocate(cfg); err != nil {
		return nil, err
	}
	if err := c.establish(q); err != nil {
		// When an admin command timed out, the controller may still take the
		// rings into use, so they stay until the next reset.
		if c.admin.quarantined > 0 {
			c.retired = append(c.retired, q.lists, q.cqMem)
			if q.ownSQ {
				c.retired = append(c.retired, q.sqMem)
			}
			return nil, err
		}
		return nil, errors.Join(err, q.free())
	}
	c.mu.Lock()
	c.queues[id] = q
	c.mu.Unlock()
	return q, nil
}

func (c *Controller) chooseID(want uint16) (uint16, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if want != 0 {
		if c.queues[want] != nil || int(want) > c.granted {
			return 0, &UnsupportedError{fmt.Sprintf("queue identifier %d", want), fmt.Sprintf("it is in use, or above the %d that the controller granted", c.granted)}
		}
		return want, nil
	}
	for id := 1; id <= c.granted; id++ {
		if c.queues[uint16(id)] == nil {
			return uint16(id), nil
		}
	}
	return 0, &UnsupportedError{"another queue pair", fmt.Sprintf("all %d that the controller granted are in use", c.granted)}
}

// allocate gets the memory of the rings and the PRP lists.
func (q *QueuePair) allocate(cfg QueueConfig) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, q.free())
		}
	}()
	c := q.ctrl
	sqBytes, cqBytes := int(q.depth)*sqeSize, int(q.depth)*cqeSize
	q.sqMem, q.cqMem = cfg.SQ, cfg.CQ
	switch {
	case cfg.CMB:
		if q.sqMem, q.sqOff, err = c.cmb.take(sqBytes); err != nil {
			return err
		}
	case q.sqMem == nil:
		if q.sqMem, err = c.tr.Alloc(sqBytes); err != nil {
			return fmt.Errorf("memory of submission queue %d: %w", q.id, err)
		}
		q.ownSQ = true
	}
	if q.cqMem == nil {
		if q.cqMem, err = c.tr.Alloc(cqBytes); err != nil {
			return fmt.Errorf("memory of completion queue %d: %w", q.id, err)
		}
		q.ownCQ = true
	}
	if !q.sqMem.Contiguous(q.sqOff, sqBytes) || !q.cqMem.Contiguous(0, cqBytes) {
		return &UnsupportedError{fmt.Sprintf("queue %d of %d entries", q.id, q.depth), "its memory is too small or not contiguous for the controller"}
	}
	q.sq = unsafe.Pointer(&q.sqMem.buf[q.sqOff])
	q.cq = unsafe.Pointer(&q.cqMem.buf[0])
	if q.id == 0 {
		return nil // admin commands bring their own addresses
	}
	q.listStride = listBytes(c.maxTransfer)
	if q.lists, err = c.tr.Alloc(q.listStride * len(q.slots)); err != nil {
		return fmt.Errorf("PRP lists of queue %d: %w", q.id, err)
	}
	for i := range q.slots {
		for at := i * q.listStride; at < (i+1)*q.listStride; at += PageSize {
			if n := min(PageSize, q.listStride); !q.lists.Contiguous(at, n) {
				return &ProtocolError{"PRP lists", "the transport gave memory that is not contiguous within a page"}
			}
		}
	}
	return nil
}

// attach zeroes the rings, since old phase tags would read as completions,
// puts the positions to the start and finds the doorbells.
func (q *QueuePair) attach() (err error) {
	clear(unsafe.Slice((*byte)(q.sq), int(q.depth)*sqeSize))
	clear(unsafe.Slice((*byte)(q.cq), int(q.depth)*cqeSize))
	q.rewind()
	sq, cq := q.ctrl.doorbellOffsets(q.id)
	if q.sqDB, err = q.ctrl.regs.Doorbell(sq); err != nil {
		return err
	}
	if q.cqDB, err = q.ctrl.regs.Doorbell(cq); err != nil {
		return err
	}
	q.broken = nil
	return nil
}

// establish makes the queue pair known to the controller: the completion queue
// first, which the submission queue refers to. Needs adminMu.
func (c *Controller) establish(q *QueuePair) error {
	if err := q.attach(); err != nil {
		return err
	}
	size := (q.depth-1)<<16 | uint32(q.id)
	const contiguous = 1
	_, err := c.adminLocked(&Command{Opcode: AdminCreateCQ, PRP1: q.cqMem.iova(0), CDW10: size, CDW11: contiguous}, nil)
	if err != nil {
		return fmt.Errorf("create completion queue %d: %w", q.id, err)
	}
	_, err = c.adminLocked(&Command{Opcode: AdminCreateSQ, PRP1: q.sqMem.iova(q.sqOff), CDW10: size, CDW11: uint32(q.id)<<16 | contiguous}, nil)
	if err != nil {
		_, undo := c.adminLocked(&Command{Opcode: AdminDeleteCQ, CDW10: uint32(q.id)}, nil)
		return errors.Join(fmt.Errorf("create submission queue %d: %w", q.id, err), undo)
	}
	return nil
}

// dissolve deletes the queue pair in the controller: the submission queue
// first, after which no command of it is in progress; then what the controller
// has completed is taken over and the rest ends with ErrReset.
func (c *Controller) dissolve(q *QueuePair) error {
	if _, err := c.adminLocked(&Command{Opcode: AdminDeleteSQ, CDW10: uint32(q.id)}, nil); err != nil {
		return fmt.Errorf("delete submission queue %d: %w", q.id, err)
	}
	q.cancelUnsent(ErrReset)
	q.reap(int(q.depth))
	q.endAll(ErrReset)
	if _, err := c.adminLocked(&Command{Opcode: AdminDeleteCQ, CDW10: uint32(q.id)}, nil); err != nil {
		return fmt.Errorf("delete completion queue %d: %w", q.id, err)
	}
	q.release()
	return nil
}

// Reset deletes the queue pair in the controller and makes it anew.
// Outstanding requests end, those that the controller did not complete with
// ErrReset, and the quarantine is over. The owner calls it.
func (q *QueuePair) Reset() error {
	c := q.ctrl
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if errors.Is(q.broken, ErrClosed) || c.State() != StateReady {
		return ErrClosed
	}
	err := c.dissolve(q)
	if err == nil {
		err = c.establish(q)
	}
	if err != nil {
		q.fail(err)
	}
	return err
}

// Close deletes the queue pair and frees its memory. Completions that were not
// delivered can still be polled. The owner calls it.
func (q *QueuePair) Close() error {
	c := q.ctrl
	c.adminMu.Lock()
	defer c.adminMu.Unlock()
	if errors.Is(q.broken, ErrClosed) {
		return nil
	}
	if err := c.dissolve(q); err != nil {
		q.fail(err)
		return err
	}
	q.broken = ErrClosed
	c.mu.Lock()
	delete(c.queues, q.id)
	c.mu.Unlock()
	return q.free()
}

// free gives back the memory that the queue pair has allocated.
func (q *QueuePair) free() error { return q.giveUp((*Memory).Free) }

// giveUp does free's work by one of Memory's ways to end.
func (q *QueuePair) giveUp(end func(*Memory) error) error {
	var errs []error
	for _, m := range []struct {
		mem *Memory
		own bool
	}{{q.sqMem, q.ownSQ}, {q.cqMem, q.ownCQ}, {q.lists, true}} {
		if m.mem != nil && m.own {
			errs = append(errs, end(m.mem))
		}
	}
	if q.sqMem != nil && q.sqMem == q.ctrl.cmb.mem {
		q.ctrl.cmb.give(q.sqOff, int(q.depth)*sqeSize)
	}
	q.sqMem, q.cqMem, q.lists, q.sq, q.cq = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}
