package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
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

// Over is what kernels are told: below which request no copy is in flight.
func (e *Engine) Over() uint64 { return binary.LittleEndian.Uint64(e.shared.Bytes()[moverAt:]) }

// Enter keeps other calls out until what it returns is called.
func (e *Engine) Enter() (leave func()) {
	e.mu <- struct{}{}
	return e.mu.leave
}
