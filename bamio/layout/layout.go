// Package layout has Go's view of what the host sets up for GPU-initiated I/O:
// the structs of bamio/device/layout.cuh, field by field, with the same sizes
// and offsets (package check compares them with what the device's compiler says).
//
// Addresses are numbers as the GPU uses them. What is in GPU memory (all but
// Request) is never accessed in place by Go: it is built here, copied there,
// and copied back for a look.
package layout

// Version is kLayoutVersion of layout.cuh.
const Version = 1

// The states of a command id, in bits 0-1 of Cid.Word.
const (
	Free      = 0
	InFlight  = 1
	Done      = 2 // the completion has come, its owner has not looked yet
	Abandoned = 3 // its owner gave up; nobody will look
)

// Cid is a command id's word: its state, and once done the completion's status
// field in bits 16-30.
type Cid struct {
	Word   uint32
	Dword0 uint32
}

// State is the command id's state.
func (c Cid) State() uint32 { return c.Word & 3 }

// Queue is one I/O queue pair. Counters are monotonic: the slot of entry n is
// n % depth. The gaps keep what different warps write apart.
type Queue struct {
	SQ         uint64 // submission entries, 64 bytes each
	CQ         uint64 // completion entries, 16 bytes each
	SQDoorbell uint64 // 32-bit registers
	CQDoorbell uint64
	Ready      uint64 // uint32[depth]: low half of entry number + 1, once written
	Cids       uint64 // Cid[CidCount]
	Depth      uint32
	CQDepth    uint32
	CidCount   uint32
	ID         uint32 // the controller's queue number
	NSID       uint32
	Drive      uint32 // index in Engine.Drives
	_          [14]uint32

	Tickets uint64 // entries reserved
	NextCid uint64
	_       [14]uint64

	Rung     uint64 // entries told to the controller
	RingLock uint32
	Failed   uint32 // not 0: a Status that every later command gets
	_        [14]uint64

	Freed uint64 // entries that the controller has fetched, by SQHD
	_     [15]uint64

	CQHead      uint64 // completions consumed
	CQLock      uint32
	Spurious    uint32 // completions for a cid that was not in flight
	Doorbells   uint64 // SQ doorbell writes
	Completions uint64 // completions delivered
	_           [12]uint64
}

// Drive is a namespace behind one controller.
type Drive struct {
	Blocks     uint64
	BlockSize  uint32 // bytes
	MaxBlocks  uint32 // of one command
	FirstQueue uint32
	QueueCount uint32
	ID         uint32
	_          uint32
	IOVA       uint64 // payload buffer 0, as this drive's controller sees it
	Lists      uint64 // the PRP list of buffer 0, as this drive's controller sees it
	_          [2]uint64
}

// Payload is a set of equal buffers for data.
type Payload struct {
	Base      uint64 // of buffer 0, for the GPU
	IOVA      uint64 // of buffer 0, for drive 0
	Lists     uint64 // IOVA of buffer 0's PRP list, for drive 0
	Bytes     uint32 // of one buffer, a multiple of 4096
	ListBytes uint32
	Count     uint32
	_         [7]uint32
}

// Engine is what kernels get, by address.
type Engine struct {
	Version    uint32
	DriveCount uint32
	QueueCount uint32
	_          uint32
	Drives     uint64 // Drive[DriveCount]
	Queues     uint64 // Queue[QueueCount]
	Requests   uint64 // RequestRing, or 0
	DeadlineNS uint64 // of one wait
	Stop       uint64 // uint32 in pinned host memory: not 0 asks kernels to end; or 0
	_          [2]uint32
	Payload    Payload
}

// Begun is flipped in Request.Done once the CPU has begun what a request asks for.
const Begun = 1 << 31

// Request is one slot of the request ring, in pinned host memory: the only
// struct that both sides use in place. Sequence and Done are accessed
// atomically.
type Request struct {
	Sequence uint32 // low half of n + 1 once the request is whole
	Kind     uint32
	Argument [5]uint64
	Done     uint32 // written by the CPU: low half of n + 1, after Result; Begun is flipped once it has begun
	Result   uint32
	// Abandoned is written by the producer when it gives up: low half of n + 1.
	Abandoned uint32
	// Withdrawn is written by the producer, who asks the CPU not to begin: low half of n + 1.
	Withdrawn uint32
}

// RequestRing is the GPU's side of the request ring.
type RequestRing struct {
	Slots uint64 // Request[Count]
	Count uint32 // a power of two
	_     [29]uint32
	Tail  uint64 // requests reserved
	_     [15]uint64
	Head  uint64 // results taken
	_     [15]uint64
}

// What a command or a wait ends with on the GPU, beside the 15-bit status field
// of a completion (SC, SCT, CRD, M, DNR).
const (
	OK            = 0
	Timeout       = 0x10000 // no completion within the deadline; the cid is abandoned
	QueueFailed   = 0x20000 // the queue had failed before
	DeviceGone    = 0x30000
	BadArgument   = 0x40000 // outside the drive, the buffer, or the command's limits
	Stopped       = 0x50000 // the host asked kernels to end
	NoCompletion  = 0x60000 // a completion for another generation: protocol broken
	RequestFailed = 0x70000 // the CPU could not do what a request asked for
	Busy          = 0x80000 // no place within the deadline; nothing was sent
	NotBegun      = 0x90000 // the request was withdrawn: the CPU has not begun what it asks for, and will not
)
