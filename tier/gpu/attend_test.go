package gpu

import (
	"errors"
	"testing"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/tier/layout"
)

// TestNoMoves: requests that are no moves are refused, and the others of their batch are
// dealt out as they are.
func TestNoMoves(t *testing.T) {
	a := &attendant{page: 4096, frames: 4, slots: 9}
	call := func(kind uint32, frame, slot, bytes uint64) bamio.Call {
		return bamio.Call{Kind: kind, Argument: [5]uint64{frame, slot, bytes}}
	}
	const in, out = layout.MoveRequest + layout.ToDevice, layout.MoveRequest + layout.ToHost
	calls := []bamio.Call{call(in, 3, 8, 4096), call(0, 1, 1, 4096), call(3, 1, 1, 4096), call(in, 4, 1, 4096), call(out, 1, 9, 4096),
		call(out, 2, 7, 4096), call(out, 1<<32, 1, 4096), call(in, 1, 1<<32, 4096), call(in, 1, 1, 8192)}
	a.sort(calls)
	for i, c := range calls {
		if (c.Status == bamio.OK) != (i == 0 || i == 5) || c.Status != bamio.OK && c.Status != bamio.RequestFailed {
			t.Errorf("call %d: %v", i, c.Status)
		}
	}
	if l := a.lists; len(l[0].pairs) != 1 || len(l[1].pairs) != 1 || l[0].pairs[0] != (copyeng.Pair{Host: 8, Device: 3}) || l[1].pairs[0] != (copyeng.Pair{Host: 7, Device: 2}) || l[1].calls[0] != &calls[5] {
		t.Errorf("%+v", l)
	}
	if !errors.Is(a.lastError(), errNoMove) {
		t.Error(a.lastError())
	}
}
