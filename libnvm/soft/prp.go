package soft

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// segments turns the PRPs of a command into pieces of host memory for n bytes,
// joining what lies side by side. Every page must lie in a registered region;
// nothing of it is touched before all have been checked.
func (t *thread) segments(c *command, n uint64) libnvm.Status {
	if cap(c.op.Segments) == 0 {
		c.op.Segments = c.inline[:0]
	}
	c.op.Segments = c.op.Segments[:0]
	prp1, prp2 := c.sqe.PRP1, c.sqe.PRP2
	if prp1%4 != 0 {
		return libnvm.StatusPRPOffsetInvalid
	}
	first := min(n, pageSize-prp1%pageSize)
	if !t.segment(c, prp1, first) {
		return libnvm.StatusDataTransferError
	}
	n -= first
	switch {
	case n == 0:
		return libnvm.StatusSuccess
	case n <= pageSize:
		if prp2%pageSize != 0 {
			return libnvm.StatusPRPOffsetInvalid
		}
		if !t.segment(c, prp2, n) {
			return libnvm.StatusDataTransferError
		}
		return libnvm.StatusSuccess
	}
	return t.listSegments(c, prp2, n)
}

// listSegments follows a PRP list of more than one page of data. Only the
// first pointer may have an offset, so each further list page holds 511
// entries and the walk is bounded by the length of the transfer.
func (t *thread) listSegments(c *command, list, n uint64) libnvm.Status {
	if list%8 != 0 {
		return libnvm.StatusPRPOffsetInvalid
	}
	for {
		entries := (pageSize - list%pageSize) / 8
		p := t.c.arena.resolve(list, entries*8, &c.sq.look)
		if p == nil {
			// The list may end before its page does.
			entries = min(entries, (n+pageSize-1)/pageSize)
			if p = t.c.arena.resolve(list, entries*8, &c.sq.look); p == nil {
				return libnvm.StatusDataTransferError
			}
		}
		page := unsafe.Slice((*uint64)(p), entries)
		for i, prp := range page {
			if prp%pageSize != 0 {
				return libnvm.StatusPRPOffsetInvalid
			}
			if i == len(page)-1 && n > pageSize {
				list = prp
				break
			}
			k := min(n, pageSize)
			if !t.segment(c, prp, k) {
				return libnvm.StatusDataTransferError
			}
			if n -= k; n == 0 {
				return libnvm.StatusSuccess
			}
		}
	}
}

// segment adds n bytes at iova.
func (t *thread) segment(c *command, iova, n uint64) bool {
	p := t.c.arena.resolve(iova, n, &c.sq.look)
	if p == nil {
		return false
	}
	if k := len(c.op.Segments); k > 0 {
		last := &c.op.Segments[k-1]
		if unsafe.Add(unsafe.Pointer(last.Base), last.Len) == p {
			last.Len += n
			return true
		}
	}
	c.op.Segments = append(c.op.Segments, unix.Iovec{Base: (*byte)(p), Len: n})
	return true
}

// truncate cuts the segments off after n bytes.
func truncate(c *command, n uint64) {
	for i := range c.op.Segments {
		s := &c.op.Segments[i]
		if s.Len >= n {
			s.Len = n
			c.op.Segments = c.op.Segments[:i+1]
			return
		}
		n -= s.Len
	}
}

// copyOut writes data to the memory that the command's PRPs name.
func (t *thread) copyOut(c *command, data []byte) libnvm.Status {
	if st := t.segments(c, uint64(len(data))); st != libnvm.StatusSuccess {
		return st
	}
	for _, s := range c.op.Segments {
		data = data[copy(unsafe.Slice(s.Base, s.Len), data):]
	}
	return libnvm.StatusSuccess
}

// copyIn reads into data from the memory that the segments name.
func copyIn(data []byte, c *command) {
	for _, s := range c.op.Segments {
		data = data[copy(data, unsafe.Slice(s.Base, s.Len)):]
	}
}
