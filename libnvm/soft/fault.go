package soft

import (
	"time"

	"github.com/tritier/tritier/libnvm"
)

// CommandInfo describes a command that was just fetched from a submission queue.
type CommandInfo struct {
	Queue  uint16 // 0 is the admin queue
	CID    uint16
	Opcode libnvm.Opcode
	NSID   uint32
	LBA    uint64 // for commands with blocks
	Blocks uint32 // for commands with blocks, else 0
	Bytes  int64  // data that the command moves
	Seq    uint64 // counts the commands fetched from this queue since it was created, from 0
}

// Faults decides what goes wrong. Command is called once for every command
// fetched, from several service threads at once.
type Faults interface {
	Command(*CommandInfo) Fault
}

// Fault is what happens to one command; the zero value is nothing. Fields combine.
type Fault struct {
	// Status completes the command with this status instead of success.
	// Transfer of the data comes first, of so many bytes: 0 none, below 0 all.
	Status   libnvm.Status
	DNR      bool
	Transfer int64

	Delay      time.Duration   // post the completion so much later
	Gate       <-chan struct{} // post it only once the channel is closed; nil does not wait
	Drop       bool            // execute, but never post the completion
	Duplicates int             // post the completion so many more times
	Hold       int             // post it only after so many later completions of the same queue, or 5 ms
	Torn       bool            // write the completion dword by dword, pausing in between, dword 3 last
	StaleHead  bool            // report the SQ head of the queue's previous completion
	Corrupt    bool            // flip a bit of the data that a read returns: silent corruption

	Fatal bool // set CSTS.CFS and stop serving until the controller is reset
	Gone  bool // all registers read as ones from now on; nothing is served until Controller.Revive

	more *gate // gates besides Gate, of faults that were combined
}

// gate is one more channel that a completion waits for. It never changes once
// it is part of a fault, so that faults can share the rest of a list.
type gate struct {
	ch   <-chan struct{}
	next *gate
}

// shut adds a gate to those of f.
func (f *Fault) shut(ch <-chan struct{}) {
	switch {
	case ch == nil || ch == f.Gate:
	case f.Gate == nil:
		f.Gate = ch
	default:
		f.more = &gate{ch, f.more}
	}
}

// open reports whether every gate of f is open.
func (f *Fault) open() bool {
	if !isOpen(f.Gate) {
		return false
	}
	for g := f.more; g != nil; g = g.next {
		if !isOpen(g.ch) {
			return false
		}
	}
	return true
}

func isOpen(ch <-chan struct{}) bool {
	if ch == nil {
		return true
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Pacer is a service-time model. Finish returns when a command fetched at now
// may complete at the earliest; both count from the controller's start. It is
// called in the order in which commands are fetched, from several service
// threads at once. The completion is posted at that time or, when the real
// work took longer, right after it.
type Pacer interface {
	Finish(now time.Duration, c *CommandInfo) time.Duration
}
