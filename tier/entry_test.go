package tier

import "testing"

// Each composition that takes no time must be what the life cycle gives event
// by event.
func TestCompositionsFollowTheLifeCycle(t *testing.T) {
	for _, c := range []struct {
		name   string
		start  Entry
		got    Entry
		events []Event
		flags  Entry // flags expected afterwards
	}{
		{"fill from T3", Entry(Absent), Entry(Absent).filled(), []Event{BeginFill, EndFill}, 0},
		{"promote a dirty page", Entry(ResidentT2) | dirtyBit, (Entry(ResidentT2) | dirtyBit).filled(), []Event{BeginFill, EndFill}, dirtyBit},
		{"promote, keep the copy", Entry(ResidentT2) | copyBit, (Entry(ResidentT2) | copyBit).filled(), []Event{BeginFill, EndFill}, copyBit},
		{"demote dirty", Entry(ResidentT1) | dirtyBit, (Entry(ResidentT1) | dirtyBit).demoted(), []Event{BeginDemote, EndDemote}, dirtyBit},
		{"demote onto the copy", Entry(ResidentT1) | copyBit, (Entry(ResidentT1) | copyBit).demoted(), []Event{BeginDemote, EndDemote}, 0},
		{"drop clean from T1", Entry(ResidentT1) | sampleBit, (Entry(ResidentT1) | sampleBit).forgotten(), []Event{Drop}, sampleBit},
		{"write back from T1", Entry(ResidentT1) | dirtyBit, (Entry(ResidentT1) | dirtyBit).forgotten(), []Event{BeginWriteBack, EndWriteBack}, 0},
		{"write back from T2", Entry(ResidentT2) | dirtyBit, (Entry(ResidentT2) | dirtyBit).forgotten(), []Event{BeginWriteBack, EndWriteBack}, 0},
		{"drop clean from T2", Entry(ResidentT2), Entry(ResidentT2).forgotten(), []Event{Drop}, 0},
	} {
		s := c.start.State()
		for _, ev := range c.events {
			n, err := s.Next(ev)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			s = n
		}
		if c.got.State() != s || c.got&^stateMask != c.flags {
			t.Errorf("%s: entry %#x, want state %v and flags %#x", c.name, c.got, s, c.flags)
		}
	}
}

// legal lists the whole life cycle once more, by hand: a transition added or
// lost by mistake shows here.
func TestTransitions(t *testing.T) {
	legal := map[State]map[Event]State{
		Absent:      {BeginFill: Filling},
		Filling:     {EndFill: ResidentT1, FailFill: Absent, FailPromote: ResidentT2},
		ResidentT1:  {BeginDemote: Demoting, BeginWriteBack: WritingBack, Drop: Absent},
		Demoting:    {EndDemote: ResidentT2, FailDemote: ResidentT1},
		ResidentT2:  {BeginFill: Filling, BeginWriteBack: WritingBack, Drop: Absent},
		WritingBack: {EndWriteBack: Absent, FailWriteBackT1: ResidentT1, FailWriteBackT2: ResidentT2},
	}
	for s := range numStates {
		for e := range numEvents {
			want, ok := legal[s][e]
			got, err := s.Next(e)
			if ok != (err == nil) || ok && got != want || !ok && got != s {
				t.Errorf("%v on %v: %v, %v", s, e, got, err)
			}
		}
	}
	if _, err := State(200).Next(Drop); err == nil {
		t.Error("a state out of range has a transition")
	}
}

func TestAccessPacks(t *testing.T) {
	for _, op := range []Op{Read, Write, Overwrite, Prefetch} {
		a := MakeAccess(1<<30-2, op)
		if a.Page() != 1<<30-2 || a.Op() != op {
			t.Errorf("%v: page %d op %v", op, a.Page(), a.Op())
		}
	}
}
