package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// SetRecords makes the rings of engines to come have so many records, of which so many
// can wait, and returns what undoes it.
func SetRecords(count, room uint64) (undo func()) {
	c, r := recordCount, recordRoom
	recordCount, recordRoom = count, room
	return func() { recordCount, recordRoom = c, r }
}

// SetEvents does the same for rings of events.
func SetEvents(count, room uint64) (undo func()) {
	c, r := eventCount, eventRoom
	eventCount, eventRoom = count, room
	return func() { eventCount, eventRoom = c, r }
}

// SetMoves changes the ring of requests for moves, and how long warps wait for the CPU to
// begin one, of engines to come. It returns what undoes it.
func SetMoves(ring int, patience time.Duration) (undo func()) {
	r, p := moveRing, movePatience
	moveRing, movePatience = ring, patience
	return func() { moveRing, movePatience = r, p }
}

// SetStage changes the size of each half of the stage of engines to come.
func SetStage(bytes int) (undo func()) {
	old := stageBytes
	stageBytes = bytes
	return func() { stageBytes = old }
}

// StopAttendant ends the CPU's part of moves, as a CPU does that has no time for it.
func (e *Engine) StopAttendant() {
	e.attend.end()
	e.attend.ended.Wait()
}

// Launch starts an access by index as a kernel of a user does: beside batch calls. The
// list and the values, report after them, are in memory of the caller.
func (e *Engine) Launch(s *cuda.Stream, ref layout.ArrayRef, op tier.Op, warps int, list cuda.Ptr, n int, values, report cuda.Ptr) error {
	return e.k.AccessByIndex(s, e.shape(warps), &ref, uint32(op), list, uint64(n), values, report)
}

// Whole says whether every frame and slot that was put aside is back, and T2 no larger
// than it should be.
func (e *Engine) Whole(ctx context.Context) error {
	t, err := e.tables(ctx)
	if err != nil {
		return err
	}
	if uint32(t.hot.LostFrames) != layout.ChainEnd || uint32(t.hot.LostSlots) != layout.ChainEnd || t.hot.T2Extra != 0 || int(t.hot.T2Used) > e.o.T2 {
		return fmt.Errorf("frames from %#x and slots from %#x on are put aside, T2 has %d pages, %d too many",
			uint32(t.hot.LostFrames), uint32(t.hot.LostSlots), t.hot.T2Used, t.hot.T2Extra)
	}
	return nil
}

// Entries reads the entries of all pages, and on to that of page last.
func (e *Engine) Entries(ctx context.Context, last uint32) ([]uint64, error) {
	entries := make([]uint64, last+1)
	return entries, e.get(ctx, e.dev.Entries, entries)
}

// Over is what kernels are told: below which request no copy is in flight.
func (e *Engine) Over() uint64 { return binary.LittleEndian.Uint64(e.shared.Bytes()[moverAt:]) }

// Enter keeps other calls out until what it returns is called.
func (e *Engine) Enter() (leave func()) {
	e.mu <- struct{}{}
	return e.mu.leave
}

// Breaks are ways to break the tables of free places, and what Check says to each.
var Breaks = map[string]struct {
	says string
	do   func(t *tables, head func() *uint64)
}{
	"a slot in two stacks": {"and was found in that of", func(t *tables, head func() *uint64) { t.hot.FreeSlots[layout.Stripes-1].Head = *head() }},
	"a ring of slots": {"and was found in that of", func(t *tables, head func() *uint64) {
		at := uint32(*head())
		t.slots[at] = layout.FreeMark | at
	}},
	"a slot in no stack": {"is free and in no stack", func(t *tables, head func() *uint64) {
		h := head()
		*h = uint64(t.slots[uint32(*h)] &^ layout.FreeMark)
	}},
	"a stack with a slot of a page": {"and page 0 has it", func(t *tables, head func() *uint64) {
		*head() = t.entries[0] & locationMask >> locationShift
	}},
	"a stack that leaves the slots": {"has slot", func(t *tables, head func() *uint64) { *head() = uint64(len(t.slots)) }},
	"a slot put aside that was not counted": {"by the counts 0", func(t *tables, head func() *uint64) {
		h := head()
		at := uint32(*h)
		*h = uint64(t.slots[at] &^ layout.FreeMark)
		t.slots[at], t.hot.LostSlots = layout.FreeMark|layout.ChainEnd, uint64(at)
	}},
	"a frame in no stack": {"is free and in no stack", func(t *tables, _ func() *uint64) {
		t.hot.FreeFrames = uint64(t.frames[uint32(t.hot.FreeFrames)] &^ layout.FreeMark)
	}},
	"a stack with a frame of a page":     {"has it", func(t *tables, _ func() *uint64) { t.hot.FreeFrames = 0 }},
	"a frame in use that was never used": {"was never used", func(t *tables, _ func() *uint64) { t.hot.UsedFrames = 5 }},
	"more frames than there are":         {"frames are in use", func(t *tables, _ func() *uint64) { t.hot.UsedFrames = 1 << 20 }},
}

// Break breaks the tables so, and returns what mends them and what Check has to say.
func (e *Engine) Break(ctx context.Context, how string) (mend func() error, says string, err error) {
	t, err := e.tables(ctx)
	if err != nil {
		return nil, "", err
	}
	was := t
	was.frames, was.slots = slices.Clone(t.frames), slices.Clone(t.slots)
	head := func() *uint64 { // of a stack that has some
		for i := range t.hot.FreeSlots {
			if h := &t.hot.FreeSlots[i].Head; uint32(*h) != layout.ChainEnd {
				return h
			}
		}
		return nil
	}
	Breaks[how].do(&t, head)
	put := func(t *tables) error {
		s := e.stream
		return errors.Join(s.CopyToDevice(cuda.Ptr(e.dev.FrameOwner), encode(t.frames)), s.CopyToDevice(cuda.Ptr(e.dev.SlotOwner), encode(t.slots)),
			s.CopyToDevice(cuda.Ptr(e.dev.Hot), encode(t.hot)), s.Wait(ctx))
	}
	return func() error { return put(&was) }, Breaks[how].says, put(&t)
}
