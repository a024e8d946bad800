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

// judge compares the errors that were seen, by status, with the faults that were
// injected, and is the error that a difference is. deadline is that of one I/O.
func (w *faultSwitch) judge(seen map[string]uint64, deadline time.Duration) error {
	injected, mayBeLate, lost := w.expected(deadline)
	var wrong []string
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		n := seen[kind]
		want, asked := injected[kind]
		switch late := kind == timedOut || kind == bamio.Timeout.String() || kind == bamio.Busy.String(); {
		case late && mayBeLate:
			lost = true
		case late || !asked:
			wrong = append(wrong, fmt.Sprintf("%s ended with %q, which no injected fault explains", plural(n, "I/O"), kind))
		case n > want:
			wrong = append(wrong, fmt.Sprintf("%s ended with %q, where %s injected", plural(n, "I/O"), kind, wasOrWere(want)))
		}
	}
	// A command that was dropped or given up takes its status with it.
	for _, kind := range slices.Sorted(maps.Keys(injected)) {
		if want, n := injected[kind], seen[kind]; n < want && !lost {
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

// expected is how often each status was injected, whether I/Os may have ended at
// their deadline for it, and whether commands were lost.
func (w *faultSwitch) expected(deadline time.Duration) (injected map[string]uint64, late, lost bool) {
	injected = map[string]uint64{}
	hits := make([]uint64, len(w.rules))
	for _, p := range w.plans {
		for i, n := range p.Fired() {
			hits[i] += n
		}
	}
	var delay time.Duration
	for i := range w.rules {
		f := &w.rules[i].Fault
		switch {
		case f.Status != 0:
			injected[f.Status.String()] += hits[i]
		case f.Drop && hits[i] > 0:
			late, lost = true, true
		case hits[i] > 0:
			delay += f.Delay // rules add up
		}
	}
	// The other half of the deadline is what I/O takes anyway.
	return injected, late || delay >= deadline/2, lost
}
