package gpu

import (
	"fmt"

	"github.com/tritier/tritier/tier/layout"
)

// places are frames or slots and in which stack of free ones each was found: pool.cuh.
type places struct {
	kind  string
	owner []uint32
	in    []string // "" in none
}

func newPlaces(kind string, owner []uint32) *places {
	return &places{kind, owner, make([]string, len(owner))}
}

// walk counts what is in a stack, and sees to it that it is free and in no other, nor there
// twice: that also ends the walk of a ring.
func (p *places) walk(stack string, head uint64) (n int, err error) {
	for at := uint32(head); at != layout.ChainEnd; at = p.owner[at] &^ layout.FreeMark {
		switch {
		case uint64(at) >= uint64(len(p.owner)):
			return n, fmt.Errorf("gpu engine: the stack of %s has %s %d, of %d", stack, p.kind, at, len(p.owner))
		case p.in[at] != "":
			return n, fmt.Errorf("gpu engine: %s %d is in the stack of %s, and was found in that of %s", p.kind, at, stack, p.in[at])
		case p.owner[at]&layout.FreeMark == 0:
			return n, fmt.Errorf("gpu engine: %s %d is in the stack of %s, and page %d has it", p.kind, at, stack, p.owner[at]&^layout.CopyMark)
		}
		p.in[at] = stack
		n++
	}
	return n, nil
}

// leaked sees to it that what is free is in a stack: no kernel runs that could have it in hand.
// Those from unused on were never given out, and are in none.
func (p *places) leaked(unused int) error {
	for at, o := range p.owner {
		free, fresh := o&layout.FreeMark != 0, at >= unused
		switch {
		case fresh && (o != layout.None || p.in[at] != ""):
			return fmt.Errorf("gpu engine: %s %d was never used, and its owner is %#x", p.kind, at, o)
		case !fresh && free && p.in[at] == "":
			return fmt.Errorf("gpu engine: %s %d is free and in no stack: nobody will find it", p.kind, at)
		}
	}
	return nil
}

// stacked proves that every frame and slot that has no page is in one stack of free ones,
// or put aside, as often as that was counted.
func (t *tables) stacked(c *layout.Counts) error {
	frames := newPlaces("frame", t.frames)
	for name, head := range map[string]uint64{"free frames": t.hot.FreeFrames, "frames put aside": t.hot.LostFrames} {
		if _, err := frames.walk(name, head); err != nil {
			return err
		}
	}
	if used := t.hot.UsedFrames; uint64(used) > uint64(len(t.frames)) {
		return fmt.Errorf("gpu engine: %d frames are in use, of %d", used, len(t.frames))
	}
	if err := frames.leaked(int(t.hot.UsedFrames)); err != nil {
		return err
	}
	slots := newPlaces("slot", t.slots)
	aside, err := slots.walk("slots put aside", t.hot.LostSlots)
	if err != nil {
		return err
	}
	for i, s := range t.hot.FreeSlots {
		if _, err := slots.walk(fmt.Sprintf("free slots of stripe %d", i), s.Head); err != nil {
			return err
		}
	}
	if err := slots.leaked(len(t.slots)); err != nil {
		return err
	}
	if n := t.hot.SparesTaken; n != 0 {
		return fmt.Errorf("gpu engine: %d spare slots are taken, and no kernel runs", n)
	}
	if n := c.LostSlots - c.RetakenSlots; n != uint64(aside) {
		return fmt.Errorf("gpu engine: %d slots are put aside, and by the counts %d", aside, n)
	}
	return nil
}
