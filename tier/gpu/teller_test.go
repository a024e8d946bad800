package gpu

import (
	"testing"
	"time"

	"github.com/tritier/tritier/tier/layout"
)

// TestTeller: misses are told of with their moves however many there are, and moves whose
// miss does not come are dropped when they are too many, and counted.
func TestTeller(t *testing.T) {
	now := &instant{device: 1000, host: time.Now(), rate: 1}
	te := &teller{open: map[uint32][]layout.Event{}}
	move := func(n uint32) layout.Event {
		return layout.Event{Begun: 2000, Ended: 2100, Page: n, Number: n, What: layout.Edges - 1}
	}
	for i := range uint32(2 * mostOpen) {
		te.list = te.list[:0]
		te.sort(now, move(i+1))
		if i%2 == 0 {
			te.sort(now, move(i+1))
		}
		te.sort(now, layout.Event{Begun: 1500, Ended: 2200, Page: i, Number: i + 1, What: layout.MissEvent | 1<<layout.EventFailed | 9<<layout.EventStripe | 7<<layout.EventSM})
		miss, moves := te.list[0], te.list[1:]
		if miss.Kind != EventMiss || !miss.Failed || miss.Stripe != 9 || miss.SM != 7 || miss.Page != uint64(i) || !miss.Start.Equal(now.host.Add(500)) || miss.Took != 700 {
			t.Fatalf("%+v", miss)
		}
		if m := moves[0]; len(moves) != 2-int(i%2) || m.Kind != EventPromote || !m.Start.Equal(miss.Start.Add(500)) || m.Took != 100 || m.Page != uint64(i+1) {
			t.Fatalf("%+v of %+v", moves, miss)
		}
	}
	if len(te.open) != 0 || te.kept != 0 || te.cut.Load() != 0 {
		t.Errorf("%d open, %d kept, %d cut", len(te.open), te.kept, te.cut.Load())
	}
	for i := range uint32(mostOpen + 1) {
		te.sort(now, move(i+1))
	}
	if te.kept != 0 || te.cut.Load() != mostOpen+1 {
		t.Errorf("%d kept, %d cut", te.kept, te.cut.Load())
	}
}
