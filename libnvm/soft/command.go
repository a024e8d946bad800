package soft

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// States of a command.
const (
	cmdFree    = iota
	cmdWorking // with a backend
	cmdWaiting // done; its completion waits for its time, its turn or room in the queue
	cmdDropped // executed; its completion is never posted
	cmdEvent   // an asynchronous event request
)

// command is one command between its fetch and its completion. Its submission
// queue owns it and reuses it.
type command struct {
	sqe    libnvm.Command // a copy: the host may overwrite its entry as soon as SQHD has passed it
	op     Op
	sq     *submission
	ns     *namespace
	status libnvm.Status
	dw0    uint32
	state  uint8
	step   int // of commands that take several operations
	fault  Fault
	info   CommandInfo
	due    time.Duration // when the completion may be posted, 0 at once
	turn   uint64        // number of posted completions that it waits for (Fault.Hold)
	data   []byte        // scratch of compares and dataset management
	inline [4]unix.Iovec // segments of small commands
}

// blocks is the range of a command with an LBA and a zero-based block count.
func (c *command) blocks() (lba, n uint64) {
	return uint64(c.sqe.CDW10) | uint64(c.sqe.CDW11)<<32, uint64(c.sqe.CDW12&0xffff) + 1
}
