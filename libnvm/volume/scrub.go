package volume

import (
	"context"
	"errors"
	"time"
)

// ScrubReport is what Scrub found.
type ScrubReport struct {
	Pages   uint64 // that were read
	Corrupt uint64
	Torn    uint64
	Failed  uint64 // that could not be read or verified
}

// OK says whether every page was read and is as recorded.
func (r ScrubReport) OK() bool { return r.Corrupt+r.Torn+r.Failed == 0 }

const (
	scrubBatch   = 32
	scrubTimeout = time.Minute // of one batch
)

// Scrub reads every page of every array and, on a volume with checksums,
// verifies it. It calls bad, if not nil, for each page that is not right. Pages
// that others write meanwhile may be called torn. It stops when ctx ends.
func (v *Volume) Scrub(ctx context.Context, bad func(array string, page uint64, err error)) (r ScrubReport, err error) {
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
