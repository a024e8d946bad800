package bamio

import (
	"fmt"
	"io"
	"strings"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/libnvm"
)

const (
	dumpEntries = 4  // of a ring, around a position
	dumpCids    = 16 // command ids in words, the rest is counted
)

// dumpQueue writes one queue. A queue on which nothing ever happened, or nothing
// is in flight, takes one line.
func (e *Engine) dumpQueue(w io.Writer, s *snapshot, i int) {
	q := e.queues[i]
	fmt.Fprintf(w, "queue %d of %s:", q.at.ID, e.drives[q.drive].name)
	if e.drives[q.drive].port.soft {
		// A drive's doorbells are write-only.
		fmt.Fprintf(w, " doorbells hold SQ %d, CQ %d;", loadPointer(q.at.SQDoorbell.Pointer()), loadPointer(q.at.CQDoorbell.Pointer()))
	}
	if s == nil {
		fmt.Fprintf(w, " the GPU's counters are not known\n")
		e.dumpCompletions(w, q, 0, q.at.Depth) // where the GPU is in the ring is not known either
		return
	}
	g := &s.queues[i]
	first := e.first()
	fmt.Fprintf(w, " GPU: tickets %d, rung %d, freed %d, completions taken %d", g.Tickets-first, g.Rung-first, g.Freed-first, g.CQHead-first)
	if !pending(s, i) && g.Failed == 0 && g.Spurious == 0 && g.RingLock == 0 && g.CQLock == 0 {
		fmt.Fprintf(w, "; nothing in flight\n")
		return
	}
	fmt.Fprintf(w, ", delivered %d, doorbells %d, spurious %d, locks ring %d cq %d", g.Completions, g.Doorbells, g.Spurious, g.RingLock, g.CQLock)
	if g.Failed != 0 {
		fmt.Fprintf(w, ", failed: %s", Status(g.Failed))
	}
	fmt.Fprintf(w, "\n")
	dumpIDs(w, s.cids[i])
	e.dumpSubmissions(w, q, g)
	e.dumpCompletions(w, q, g.CQHead, dumpEntries)
}

var stateNames = [...]string{layout.Free: "free", layout.InFlight: "in flight", layout.Done: "done", layout.Abandoned: "abandoned"}

// dumpIDs writes the command ids that are not free.
func dumpIDs(w io.Writer, cids []layout.Cid) {
	var count [len(stateNames)]int
	var some []string
	for i, c := range cids {
		count[c.State()]++
		if c.State() != layout.Free && len(some) < dumpCids {
			text := fmt.Sprintf("%d %s (generation %d", i, stateNames[c.State()], c.Word>>2&0x3fff)
			if c.State() == layout.Done {
				text += fmt.Sprintf(", %s", Status(c.Word>>16))
			}
			some = append(some, text+")")
		}
	}
	fmt.Fprintf(w, "  command ids: %d free, %d in flight, %d done, %d abandoned", count[layout.Free], count[layout.InFlight], count[layout.Done], count[layout.Abandoned])
	if len(some) > 0 {
		fmt.Fprintf(w, ": %s", strings.Join(some, ", "))
	}
	fmt.Fprintf(w, "\n")
}

// dumpSubmissions writes the last entries that the controller was told of.
func (e *Engine) dumpSubmissions(w io.Writer, q *queue, g *layout.Queue) {
	ring := view(q.at.SQ, q.at.Depth*sqeBytes)
	for n := max(g.Rung, dumpEntries, e.first()+dumpEntries) - dumpEntries; n < g.Rung; n++ {
		at := int(n%uint64(q.at.Depth)) * sqeBytes
		dw0 := load32(ring, at)
		fmt.Fprintf(w, "  SQ entry %d: %s, cid %#04x, namespace %d, PRP1 %#x, PRP2 %#x, LBA %d, dword 12 %#x\n",
			n-e.first(), libnvm.Opcode(dw0).Name(false), dw0>>16, load32(ring, at+4), load64(ring, at+24), load64(ring, at+32), load64(ring, at+40), load32(ring, at+48))
	}
}

// dumpCompletions writes n entries from the one that the GPU takes next, with
// whether their phase tags say that they are new.
func (e *Engine) dumpCompletions(w io.Writer, q *queue, head uint64, n int) {
	ring := view(q.at.CQ, q.at.Depth*cqeBytes)
	for k := head; k < head+uint64(n); k++ {
		at := int(k%uint64(q.at.Depth)) * cqeBytes
		dw3, dw2 := load32(ring, at+12), load32(ring, at+8)
		state := "old"
		if uint64(dw3>>16&1) == k/uint64(q.at.Depth)&1^1 {
			state = "new"
		}
		fmt.Fprintf(w, "  CQ entry %d (%s): cid %#04x, phase %d, SQHD %d, %s\n", k-min(k, e.first()), state, dw3&0xffff, dw3>>16&1, dw2&0xffff, Status(dw3>>17))
		if state == "old" && n < q.at.Depth {
			return // so are those behind it
		}
	}
}
