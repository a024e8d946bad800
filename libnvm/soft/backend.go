package soft

import (
	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// OpKind is what a backend is asked to do.
type OpKind uint8

// What a backend can be asked to do.
const (
	OpRead        OpKind = iota // store to Segments
	OpWrite                     // Segments to store
	OpFlush                     // make all writes that finished before durable; Offset and Length are zero
	OpWriteZeroes               // the range reads as zeroes afterwards
	OpDiscard                   // the range is not needed; it reads as zeroes or as before
)

// Op is one operation on a backend. The controller owns it and reuses it; a
// backend may keep it only between Start and the Reap that returns it.
type Op struct {
	Kind   OpKind
	FUA    bool  // a write, or a write of zeroes, that must be durable when it finishes
	Offset int64 // bytes from the start of the store, a multiple of the block size
	Length int64 // bytes, inside the store; for reads and writes the sum of Segments
	// Segments is the memory to move, in order. Segments start at any multiple
	// of 4 bytes and have any multiple of 4 as length: direct I/O needs a bounce
	// buffer for those that are not aligned to its block.
	Segments []unix.Iovec
	// Status is the result, set by the backend before it reports the operation
	// as finished. A short or failed transfer is an error status, never success:
	// libnvm.StatusUnrecoveredRead, StatusWriteFault, StatusCapacityExceeded...
	Status libnvm.Status
	// Token is free for the backend's use.
	Token uint64

	cmd *command // the command that this belongs to
}

// Backend stores the bytes of one namespace. Methods may be called from
// several threads at once.
type Backend interface {
	// Size is the store's size in bytes. It does not change.
	Size() int64
	// Open gives one service thread its own channel to the store. It is called
	// on that thread, which is locked to its system thread, and so are all the
	// channel's methods, Close included.
	Open() (Channel, error)
	// Describe says in one line what the store is and how it is reached, for
	// reports ("file /x, io_uring, O_DIRECT").
	Describe() string
	// Close comes after every channel was closed.
	Close() error
}

// Channel is a service thread's own way to a backend: only that thread calls
// it. None of its methods but Close may block for longer than the operation
// itself takes.
type Channel interface {
	// Start begins op. True says that it is finished and op.Status is set;
	// false says that a later Reap will return it. It never refuses: at most as
	// many operations are outstanding as all queues have entries, and what the
	// kernel's ring cannot take now the channel keeps in a list.
	Start(op *Op) bool
	// Submit hands what was started since the last call to the kernel, in one
	// system call. It is called once per sweep over the queues.
	Submit()
	// Reap appends operations that finished to done and returns it. It does
	// not wait.
	Reap(done []*Op) []*Op
	// Close waits for operations in flight, for a bounded time, and returns an
	// error when some remain, since their memory is then still in use. Nobody
	// reaps them.
	Close() error
}
