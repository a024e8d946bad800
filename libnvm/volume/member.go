package volume

import (
	"errors"
	"fmt"
	"time"
)

// OpKind is what a member is asked to do.
type OpKind uint8

// What a member is asked to do.
const (
	OpRead OpKind = iota
	OpWrite
	OpFlush       // make all writes that completed before durable
	OpWriteZeroes // the range reads as zeroes afterwards
)

// String names the operation.
func (k OpKind) String() string {
	return [...]string{"read", "write", "flush", "write zeroes"}[k&3]
}

// Op is one operation on a member.
type Op struct {
	Kind      OpKind
	FUA       bool  // a write that is durable when it completes
	Offset    int64 // bytes, a multiple of the member's block size
	Length    int64 // bytes, a multiple of the block size
	Mem       Mapping
	MemOffset int           // where in Mem the data is
	Timeout   time.Duration // above zero
	Tag       uint64        // handed back in Done
}

// Done is the end of one operation.
type Done struct {
	Tag uint64
	Err error
}

// Mapping is memory that one member can reach. Free gives it back, once no
// operation uses it.
type Mapping interface {
	Free() error
	// Held is how many operations on the memory ended, by a time-out or an error,
	// without the member having answered: it may still carry them out. A reset
	// of the member takes them away. Any goroutine may call it.
	Held() int
}

// ErrQueueFull is returned by MemberQueue.Submit: poll, then try again.
var ErrQueueFull = errors.New("volume: the member's queue is full")

// ErrNoZeroes is returned by MemberQueue.Submit for OpWriteZeroes when the
// member cannot do it: zeroes are then written as data.
var ErrNoZeroes = errors.New("volume: the member has no write zeroes command")

// MemberQueue is a passive queue to a member, used by one goroutine at a time.
type MemberQueue interface {
	// Submit begins an operation, or returns ErrQueueFull or the error why it
	// cannot be done at all.
	Submit(op *Op) error
	// Poll delivers operations that ended, at most len(done), and returns how
	// many. It does not wait, and it ends operations whose time is over.
	Poll(done []Done) int
	// Held is Mapping.Held of all operations of this queue, those without memory
	// included.
	Held() int
	Close() error
}

// Identity names a member for good: it is recorded at Create and compared at
// Open. A file has no identity of its own and leaves it empty.
type Identity struct {
	Serial string // of the controller, at most 40 bytes
	NSID   uint32
	UUID   [16]byte // of the namespace, or zero
}

// String gives serial and namespace.
func (id Identity) String() string {
	if id == (Identity{}) {
		return "file"
	}
	return fmt.Sprintf("%s/%d", id.Serial, id.NSID)
}

// Member is a namespace or a file that holds one stripe of a volume. Its
// methods may be called from several goroutines. Whoever made it holds an
// exclusive lock on the storage until Close.
type Member interface {
	// Name is for messages: a path, or serial and namespace.
	Name() string
	Identity() Identity
	BlockSize() int
	Size() int64 // bytes
	// Alloc returns zeroed memory that this member can reach.
	Alloc(bytes int) ([]byte, Mapping, error)
	// Map makes memory that exists reachable.
	Map(buf []byte) (Mapping, error)
	OpenQueue(depth int) (MemberQueue, error)
	Close() error
}
