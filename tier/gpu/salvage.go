package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/tier"
)

// Salvage is what T3 lacks of an engine whose drives have left commands of kernels
// unanswered: pages for the CPU to write once the drives were reset.
type Salvage struct {
	Pages []uint64 // of the engine
	e     *Engine
	at    []uint64 // their entries
}

// ResetError is a Salvage that has ended the GPU's I/O, and then could not have all
// drives reset: to those that were not, nothing may be written.
type ResetError struct{ Err error }

// Error says what was wanted.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the drives could not be reset, to write what kernels could not: %v", e.Err)
}

// Unwrap returns the reason.
func (e *ResetError) Unwrap() error { return e.Err }

// Salvage ends the GPU's I/O for good, and finds the pages whose newest bytes T3 lacks; they stay
// where they are until Close. reset has to reset the drives, so that no earlier write of a
// page can come after that of the CPU; where it fails the error is a *ResetError, beside what
// was found: the caller knows for which drives. No kernel may run, nor a Watch for what
// does not end: a *RunningError, after which Salvage can be called again, as after the end of
// ctx. Once I/O has ended, batch calls answer ErrClosed, and no kernel may be launched.
func (e *Engine) Salvage(ctx context.Context, reset func() error) (*Salvage, error) {
	if err := e.mu.enter(ctx); err != nil {
		return nil, err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil && (e.closed || !e.retired) { // retired: an earlier Salvage has come to a *RunningError
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, e.o.Deadline)
	defer cancel()
	if err := e.ctx.Synchronize(bounded); err != nil && e.ctx.Err() == nil {
		return nil, &RunningError{err}
	}
	t, err := e.tables(ctx)
	if err != nil {
		return nil, err
	}
	s := &Salvage{e: e}
	if err := s.find(&t); err != nil {
		return nil, err
	}
	if e.attend != nil {
		if err := e.attend.stop(); err != nil {
			return nil, err
		}
	}
	e.retired = true
	var busy *bamio.BusyError
	switch err := e.io.Retire(reset); {
	case errors.As(err, &busy):
		return nil, &RunningError{err}
	case err != nil:
		return s, &ResetError{err}
	}
	return s, nil
}

// find lists the dirty pages. One that is not in its place is nobody's bytes.
func (s *Salvage) find(t *tables) error {
	for p, w := range t.entries {
		if w&dirtyBit == 0 {
			continue
		}
		owner, at := t.frames, w&locationMask>>locationShift
		if tier.State(w&stateMask) == tier.ResidentT2 {
			owner = t.slots
		}
		if st := tier.State(w & stateMask); st != tier.ResidentT1 && st != tier.ResidentT2 || at >= uint64(len(owner)) || owner[at] != uint32(p) {
			return fmt.Errorf("gpu engine: dirty page %d has the entry %#x: %w", p, w, ErrInvariant)
		}
		s.Pages, s.at = append(s.Pages, uint64(p)), append(s.at, w)
	}
	return nil
}

// Read copies page i of Pages to dst, from T1 or T2.
func (s *Salvage) Read(ctx context.Context, i int, dst []byte) error {
	e := s.e
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if e.closed {
		return ErrClosed
	}
	w, page := s.at[i], uint64(e.o.PageSize)
	at := w & locationMask >> locationShift * page
	if uint64(len(dst)) != page {
		return fmt.Errorf("%d bytes for a page of %d", len(dst), page)
	}
	if tier.State(w&stateMask) == tier.ResidentT2 {
		copy(dst, e.io.Payload()[at:at+page])
		return nil
	}
	return e.copyBack(ctx, e.frames.Ptr().Add(at), dst)
}
