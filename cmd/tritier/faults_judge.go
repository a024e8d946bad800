package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/internal/units"
)

// faultsHelp says what becomes of the exit status with --faults.
const faultsHelp = `With --faults, I/Os that fail as the plan has them fail are what was asked for: status 0. Status 1 is
an error that no injected fault explains, an injected error that did not come out as its status, wrong
data, and I/O that hangs.`

// timedOut is how the CPU's I/Os are counted that ended at their deadline.
const timedOut = "timed out"

// expectation is what the faults that were injected explain.
type expectation struct {
	injected map[string]uint64 // I/Os by status
	late     uint64            // I/Os that may have ended at their deadline: one for each command
	dropped  bool              // commands were lost
}

// judge compares the errors that were seen, by status, with the faults that were
// injected, and is the error that a difference is. deadline is that of one I/O, places
// how many are in flight in a queue, 0 where none is waited for. Less than half of them may be
// those of commands that have ended, which only the completion of another gives back
// (free_slots of poll.cuh): when all others are kept, the next finds no place.
func (w *faultSwitch) judge(seen map[string]uint64, deadline time.Duration, places int) error {
	x := w.expected(deadline)
	var wrong []string
	late := uint64(0)
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		n := seen[kind]
		want, asked := x.injected[kind]
		switch unanswered := kind == timedOut || kind == bamio.Timeout.String(); {
		case unanswered && x.late > 0:
			late += n
		case kind == bamio.Busy.String() && places > 0 && x.late > uint64(places/2):
		case !asked:
			wrong = append(wrong, fmt.Sprintf("%s ended with %q, which no injected fault explains", plural(n, "I/O"), kind))
		case n > want:
			wrong = append(wrong, fmt.Sprintf("%s ended with %q, where %s injected", plural(n, "I/O"), kind, wasOrWere(want)))
		}
	}
	if late > x.late {
		wrong = append(wrong, fmt.Sprintf("%s ended at the deadline, where only %s not answered in time by request", plural(late, "I/O"), wasOrWere(x.late)))
	}
	lost := x.dropped || late > 0
	// A command that was dropped or given up takes its status with it.
	for _, kind := range slices.Sorted(maps.Keys(x.injected)) {
		if want, n := x.injected[kind], seen[kind]; n < want && !lost {
			wrong = append(wrong, fmt.Sprintf("%q was injected into %s, of which only %s ended so", kind, plural(want, "I/O"), units.FormatCount(n)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("not as --faults asked: %s", strings.Join(wrong, "; "))
}

func wasOrWere(n uint64) string {
	if n == 1 {
		return "1 was"
	}
	return units.FormatCount(n) + " were"
}

// expected adds up what was injected. A command that was dropped, or delayed for too long,
// ends one I/O at its deadline at most.
func (w *faultSwitch) expected(deadline time.Duration) expectation {
	x := expectation{injected: map[string]uint64{}}
	hits := make([]uint64, len(w.rules))
	for _, p := range w.plans {
		for i, n := range p.Fired() {
			hits[i] += n
		}
	}
	var delay time.Duration
	delayed := uint64(0)
	for i := range w.rules {
		f := &w.rules[i].Fault
		switch {
		case f.Status != 0:
			x.injected[f.Status.String()] += hits[i]
		case f.Drop && hits[i] > 0:
			x.late += hits[i]
			x.dropped = true
		case f.Delay > 0 && hits[i] > 0:
			delay += f.Delay // rules add up
			delayed += hits[i]
		}
	}
	if delay >= deadline/2 { // the other half is what I/O takes anyway
		x.late += delayed
	}
	return x
}
