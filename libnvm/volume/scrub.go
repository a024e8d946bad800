package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// ScrubReport is what Scrub found.
type ScrubReport struct {
	Pages   uint64 // that were read
	Corrupt uint64
	Torn    uint64
	Failed  uint64 // that could not be read or verified
	// Repaired is how many copies of checksum table blocks, each covering 508
	// pages, the storage had damaged, since the last Scrub or Open. Pages of a
	// block that lost both are counted as failed besides.
	Repaired uint64
	// Superblocks and Directories are how many copies of those the storage had
	// damaged, or of a directory perhaps a crash (Recovery.Uncertain): the former are
	// written anew, the latter were when Open wrote both.
	Superblocks uint64
	Directories uint64
}

// OK says whether every page was read and is as recorded. Repairs of metadata
// do not count.
func (r ScrubReport) OK() bool { return r.Corrupt+r.Torn+r.Failed == 0 }

// Copies is how many copies of metadata of all kinds the storage had damaged. On a
// volume that is open for writing none of them is any more.
func (r ScrubReport) Copies() uint64 { return r.Repaired + r.Superblocks + r.Directories }

const (
	scrubBatch   = 32
	scrubTimeout = time.Minute // of one batch
)

// Scrub reads every page of every array and, on a volume with checksums,
// verifies it; before that it looks at both copies of each superblock and of each
// block of the checksum table, and writes damaged ones anew. It calls bad, if not nil,
// for each page that is not right. Pages that others write meanwhile may be called
// torn. It stops when ctx ends.
func (v *Volume) Scrub(ctx context.Context, bad func(array string, page uint64, err error)) (r ScrubReport, err error) {
	if err = v.scrubLabels(&r); err != nil {
		return r, err
	}
	if r.Repaired, err = v.scrubTable(ctx); err != nil {
		return r, err
	}
	q, err := v.OpenQueue(scrubBatch)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	mem, err := v.Alloc(scrubBatch * v.PageSize())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, mem.Free()) }()
	for _, info := range v.Arrays() {
		a, err := v.OpenArray(info.Name)
		if errors.Is(err, ErrNoArray) {
			continue // deleted meanwhile
		}
		if err != nil {
			return r, err
		}
		if err := errors.Join(r.array(ctx, q, a, mem, bad), a.Close()); err != nil {
			return r, err
		}
	}
	return r, nil
}

// scrubLabels looks at both copies of every member's superblock. What they are to
// hold is known since Open, so that even one that lost both since gets them back.
func (v *Volume) scrubLabels(r *ScrubReport) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	r.Directories, v.dirFaults = v.dirFaults, 0
	for i, io := range v.meta {
		l, want := v.label, make([]byte, labelSize)
		l.Member = uint32(i)
		if err := l.encode(want); err != nil {
			return err
		}
		p, err := io.read(0, 2*labelSize)
		if err != nil {
			return err
		}
		for c, good := range [2]bool{bytes.Equal(p[:labelSize], want), bytes.Equal(p[labelSize:], want)} {
			if good {
				continue
			}
			r.Superblocks++
			if v.usable() != nil {
				continue
			}
			copy(io.buf, want)
			if err := io.write(int64(c)*labelSize, labelSize, true); err != nil {
				return fmt.Errorf("volume: repair a superblock: %w", err)
			}
		}
	}
	return nil
}

// scrubTable looks at all copies of table blocks and repairs those that are not
// as they should be. It returns how many the storage has damaged.
func (v *Volume) scrubTable(ctx context.Context) (uint64, error) {
	for m := range v.sums {
		for k := range v.sums[m] {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := v.scrubBlock(blockRef{m, k}); err != nil {
				return 0, err
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.dirty) > 0 && v.usable() == nil {
		if err := v.checkpoint(); err != nil {
			return 0, fmt.Errorf("volume: repair the checksum table: %w", err)
		}
	}
	n := v.tableFaults
	v.tableFaults = 0
	return uint64(n), nil
}

// scrubBlock compares a block's copies with each other and with the memory.
func (v *Volume) scrubBlock(ref blockRef) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	disk, stale, err := v.readBlock(ref)
	if err != nil {
		return err
	}
	b := v.sums[ref.member][ref.block]
	switch {
	case b == nil && stale > 0:
		v.sums[ref.member][ref.block] = disk
		b = disk
	case b == nil:
		return nil
	case stale == 0 && (b.dirty || disk.gen == b.gen && disk.sums == b.sums):
		return nil
	case stale == 0:
		stale = 2 // both are whole, but not what was written last
	}
	// The copy that is not as it should be is written first.
	b.gen, b.newest = max(b.gen, disk.gen), disk.newest
	v.countFaults(ref, b, stale)
	return nil
}

// array scrubs one array.
func (r *ScrubReport) array(ctx context.Context, q *Queue, a *Array, mem *Memory, bad func(string, uint64, error)) error {
	for first := uint64(0); first < a.Pages(); first += scrubBatch {
		reqs := make([]Request, min(scrubBatch, a.Pages()-first))
		for i := range reqs {
			reqs[i] = Request{Array: a, Page: first + uint64(i), Mem: mem, Offset: i * q.v.PageSize()}
		}
		b, err := q.Start(reqs, scrubTimeout)
		if err != nil {
			return err
		}
		if err := q.Wait(context.WithoutCancel(ctx), b); errors.Is(err, ErrStuck) {
			return err
		}
		for i := range reqs {
			r.count(&reqs[i], bad)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// count files one result.
func (r *ScrubReport) count(req *Request, bad func(string, uint64, error)) {
	r.Pages++
	if req.Err == nil {
		return
	}
	var corrupt *CorruptPageError
	var torn *TornPageError
	switch {
	case errors.As(req.Err, &corrupt):
		r.Corrupt++
	case errors.As(req.Err, &torn):
		r.Torn++
	default:
		r.Failed++
	}
	if bad != nil {
		bad(req.Array.info.Name, req.Page, req.Err)
	}
}
