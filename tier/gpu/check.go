package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// The parts of an entry: entry.cuh.
const (
	stateMask       = 7
	dirtyBit        = 1 << 3
	generationShift = 7
	generationMask  = 0xfff << generationShift
	locationShift   = 19
	locationMask    = 0x3ffffff << locationShift
	pinShift        = 45
)

// tables is a copy of the page table, for a look while no kernel runs.
type tables struct {
	entries []uint64
	frames  []uint32
	slots   []uint32
	order   []uint32 // place of each slot in T2's order
	copies  []uint32 // slot with the copy of each frame's page; nil without t2copy=keep
	fenced  []uint32 // bitmap of the pages with a fence
	fences  []uint64 // queue << 32 | page + 1 of each slot's write that was lost
	hot     layout.Hot
	held    map[uint64]int // pins of pages by Pin
}

func (e *Engine) tables(ctx context.Context) (t tables, err error) {
	t.held = e.held
	t.entries, t.frames = make([]uint64, e.o.Pages), make([]uint32, e.dev.Frames)
	t.slots, t.order = make([]uint32, e.dev.Slots), make([]uint32, e.dev.Slots)
	t.fenced, t.fences = make([]uint32, fencedWords(e.o.Pages)), make([]uint64, e.dev.Slots)
	err = errors.Join(e.get(ctx, e.dev.Fenced, t.fenced), e.get(ctx, e.dev.Fences, t.fences), e.get(ctx, e.dev.Entries, t.entries), e.get(ctx, e.dev.FrameOwner, t.frames), e.get(ctx, e.dev.SlotOwner, t.slots),
		e.get(ctx, e.dev.SlotOrder, t.order), e.get(ctx, e.dev.Hot, &t.hot))
	if e.dev.Copies != 0 {
		t.copies = make([]uint32, e.dev.Frames)
		err = errors.Join(err, e.get(ctx, e.dev.Copies, t.copies))
	}
	return t, err
}

// Check proves the invariants: no page is on its way, or pinned but by Pin, every resident page
// owns the place that its entry names and no other, every other place is in one stack of
// free ones or put aside, copies in T2 are those of clean pages in T1, and the counters are
// conserved. No kernel may run.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if e.closed {
		return ErrClosed
	}
	t, err := e.tables(ctx)
	if err != nil {
		return err
	}
	in1, in2, err := t.resident()
	if err != nil {
		return err
	}
	if err := t.fencing(); err != nil {
		return err
	}
	copies, err := t.clean()
	if err != nil {
		return err
	}
	owned := func(list []uint32) (n int) {
		for _, o := range list {
			if o&layout.FreeMark == 0 {
				n++
			}
		}
		return n
	}
	s, err := e.stats(ctx)
	switch {
	case err != nil:
		return err
	case owned(t.frames) != in1:
		return fmt.Errorf("gpu engine: %d frames are taken by %d pages", owned(t.frames), in1)
	case owned(t.slots) != in2+copies || int(t.hot.T2Used) != in2+copies:
		return fmt.Errorf("gpu engine: %d slots are taken and %d counted, by %d pages and %d copies", owned(t.slots), t.hot.T2Used, in2, copies)
	}
	return errors.Join(t.stacked(&s.Device), s.timed(uint64(e.o.PageSize)), s.Counters.Check())
}

// timed sees to it that every page that was moved was timed, and went by one way.
func (s *Stats) timed(page uint64) error {
	d := &s.Device
	for edge, bytes := range [layout.Edges]uint64{d.BytesT3Read, d.BytesT3Write, d.BytesDemoted, d.BytesPromoted} {
		n := uint64(0)
		for _, x := range s.Moves[edge] {
			n += x
		}
		if n != bytes/page {
			return fmt.Errorf("gpu engine: %d pages have crossed edge %d, and %d were timed", bytes/page, edge, n)
		}
	}
	in, lost := uint64(0), s.Mover.Pages[layout.ToDevice][layout.Unanswered]
	for _, n := range s.Mover.Pages[layout.ToDevice] {
		in += n
	}
	// A page that was read and then lost on its way was read all the same, and one that got no
	// frame, since a victim could not leave.
	if came := (d.BytesT3Read + d.BytesPromoted) / page; came > in+d.Errors+d.PrefetchErrors || came < in-lost {
		return fmt.Errorf("gpu engine: %d pages came to T1, and by any way %d, %d of them lost", came, in, lost)
	}
	return nil
}

// resident counts the pages of both tiers and compares each with its place's owner.
func (t *tables) resident() (in1, in2 int, err error) {
	for p, w := range t.entries {
		at := w & locationMask >> locationShift
		if pins := w >> pinShift; pins != uint64(t.held[uint64(p)]) {
			return 0, 0, fmt.Errorf("gpu engine: page %d has %d pins, %d of them by Pin", p, pins, t.held[uint64(p)])
		}
		switch s := tier.State(w & stateMask); s {
		case tier.Absent:
			if w&dirtyBit != 0 {
				return 0, 0, fmt.Errorf("gpu engine: page %d is dirty but absent: its bytes are lost", p)
			}
		case tier.ResidentT1:
			if in1++; at >= uint64(len(t.frames)) || t.frames[at] != uint32(p) {
				return 0, 0, fmt.Errorf("gpu engine: page %d is said to be in frame %d, which is not its own", p, at)
			}
		case tier.ResidentT2:
			if in2++; at >= uint64(len(t.slots)) || t.slots[at] != uint32(p) {
				return 0, 0, fmt.Errorf("gpu engine: page %d is said to be in slot %d, which is not its own", p, at)
			}
		default:
			return 0, 0, fmt.Errorf("gpu engine: page %d is left %v", p, s)
		}
	}
	return in1, in2, nil
}

// clean counts the copies in T2, and sees to it that each is that of a clean page in T1
// which knows it.
func (t *tables) clean() (copies int, err error) {
	for slot, o := range t.slots {
		if o&(layout.FreeMark|layout.CopyMark) != layout.CopyMark {
			continue
		}
		copies++
		p := o &^ layout.CopyMark
		if int(p) >= len(t.entries) || t.copies == nil {
			return 0, fmt.Errorf("gpu engine: slot %d has a copy of page %d, which cannot be", slot, p)
		}
		w := t.entries[p]
		if tier.State(w&stateMask) != tier.ResidentT1 || w&dirtyBit != 0 || t.copies[w&locationMask>>locationShift] != uint32(slot) || t.order[slot] == 0 {
			return 0, fmt.Errorf("gpu engine: slot %d has a copy of page %d, whose entry is %#x", slot, p, w)
		}
	}
	return copies, nil
}

// fencedWords is the length of the bitmap of fenced pages.
func fencedWords(pages uint64) uint64 { return pages/32 + 1 }

func (t *tables) hasFence(p uint64) bool { return t.fenced[p/32]>>(p%32)&1 != 0 }

// fencing sees to it that every page with a fence has it from one slot, and is dirty in
// one of the tiers.
func (t *tables) fencing() error {
	fences := map[uint64]int{}
	for slot, f := range t.fences {
		if f == 0 {
			continue
		}
		p := f&0xffffffff - 1
		if other, ok := fences[p]; ok {
			return fmt.Errorf("gpu engine: page %d has fences in slots %d and %d", p, other, slot)
		}
		fences[p] = slot
	}
	n := 0
	for p, w := range t.entries {
		if !t.hasFence(uint64(p)) {
			continue
		}
		if n++; tier.State(w&stateMask) == tier.Absent || w&dirtyBit == 0 {
			return fmt.Errorf("gpu engine: page %d has a fence, and its entry is %#x: neither is dirty bytes", p, w)
		}
		if _, ok := fences[uint64(p)]; !ok {
			return fmt.Errorf("gpu engine: page %d has a fence that no slot has", p)
		}
	}
	if n != len(fences) {
		return fmt.Errorf("gpu engine: %d pages have fences, and %d slots", n, len(fences))
	}
	return nil
}

// Dirty is the number of pages whose newest bytes T3 lacks. No kernel may run.
func (e *Engine) Dirty(ctx context.Context) (n int, err error) {
	if err := e.mu.enter(ctx); err != nil {
		return 0, err
	}
	defer e.mu.leave()
	if e.closed {
		return 0, ErrClosed
	}
	t, err := e.tables(ctx)
	for _, w := range t.entries {
		if w&dirtyBit != 0 {
			n++
		}
	}
	return n, err
}

// Forget drops n pages from page first on out of both tiers, dirty ones too: their
// array is no more. None may be pinned, and no kernel run. A page of them with a write that may still be
// carried out is a *PageError with ErrFenced, and nothing is dropped: what is put in its
// place could be written over. A Flush that succeeds ends that.
func (e *Engine) Forget(ctx context.Context, first, n uint64) error {
	if err := e.mu.enter(ctx); err != nil {
		return err
	}
	defer e.mu.leave()
	if err := e.ready(ctx); err != nil {
		return err
	}
	if first > e.o.Pages || n > e.o.Pages-first {
		return fmt.Errorf("pages %d to %d: there are %d", first, first+n, e.o.Pages)
	}
	t, err := e.tables(ctx)
	if err != nil {
		return err
	}
	if _, _, err := t.resident(); err != nil {
		return err
	}
	for p := first; p < first+n; p++ {
		if t.hasFence(p) {
			return &PageError{p, ErrFenced}
		}
		if t.held[p] > 0 {
			return &PageError{p, errors.New("the page is pinned: unpin it before its array goes")}
		}
	}
	for p := first; p < first+n; p++ {
		t.forget(p)
	}
	s := e.stream
	err = errors.Join(s.CopyToDevice(cuda.Ptr(e.dev.Entries), encode(t.entries)), s.CopyToDevice(cuda.Ptr(e.dev.FrameOwner), encode(t.frames)),
		s.CopyToDevice(cuda.Ptr(e.dev.SlotOwner), encode(t.slots)), s.CopyToDevice(cuda.Ptr(e.dev.SlotOrder), encode(t.order)),
		s.CopyToDevice(cuda.Ptr(e.dev.Hot), encode(t.hot)))
	bounded, cancel := context.WithTimeout(ctx, e.o.Deadline)
	defer cancel()
	if w := s.Wait(bounded); w != nil {
		_, late := e.asked(late{s, w}, false) // no kernel before the copies have ended
		err = errors.Join(err, w, late)
	}
	return err
}

// forget makes a page absent in a copy of the tables. Its place goes to the top of
// the free ones; a slot without a place in T2's order is passed over there.
func (t *tables) forget(p uint64) {
	w := t.entries[p]
	at := uint32(w & locationMask >> locationShift)
	switch tier.State(w & stateMask) {
	case tier.ResidentT1:
		if t.copies != nil {
			if s := t.copies[at]; int(s) < len(t.slots) && t.slots[s] == uint32(p)|layout.CopyMark {
				t.freeSlot(s)
			}
		}
		t.frames[at] = push(&t.hot.FreeFrames, at)
	case tier.ResidentT2:
		t.freeSlot(at)
	}
	t.entries[p] = w&layout.Sampled | (w+1<<generationShift)&generationMask
}

// freeSlot frees a slot that a page or a copy had.
func (t *tables) freeSlot(at uint32) {
	t.slots[at] = push(&t.hot.FreeSlots[at%layout.Stripes].Head, at)
	t.order[at] = 0
	t.hot.T2Used--
}

// push puts a place on a stack of free ones and returns its owner word. The tag in
// the high half changes, as it does when kernels push.
func push(top *uint64, at uint32) uint32 {
	next := uint32(*top)
	*top = (*top>>32+1)<<32 | uint64(at)
	return layout.FreeMark | next
}
