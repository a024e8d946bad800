// Package layout has Go's view of what the host sets up for the GPU-orchestrated
// engine: the structs of tier/device/engine.cuh, field by field, with the same
// sizes and offsets (package check compares them with what the device's compiler
// says).
//
// Addresses are numbers as the GPU uses them. What is in GPU memory (all but
// what says pinned) is never accessed in place by Go: it is built here, copied
// there, and copied back for a look.
package layout

// TierVersion is kTierVersion of engine.cuh.
const TierVersion = 5

// How T1's victim is found: Engine.T1Policy.
const (
	T1Clock = 0
	T1Fifo  = 1
)

// Who decides a victim's fate: Engine.Placer.
const (
	Bypass    = 0
	TierOrder = 1
	Random    = 2
	GmtReuse  = 3
)

// What an access does to its page: the numbers of tier.Op.
const (
	ReadOp      = 0
	WriteOp     = 1
	OverwriteOp = 2
	PrefetchOp  = 3
)

// What an operation ends with, beside a store's own status.
const (
	TierOk      = 0
	WaitTimeout = 0x10000  // a wait took longer than DeadlineNS
	WaitStopped = 0x50000  // the host asked kernels to end
	AllPinned   = 0x100000 // every frame is pinned: Hot.FramesNeeded says how many would do
	NoSlot      = 0x110000 // no spare slot became free within DeadlineNS
	TooManyPins = 0x120000 // more pins on one page than its entry can count
	OutOfRange  = 0x130000 // an index outside of the array
	BadCall     = 0x140000 // arguments that no call may have
	Broken      = 0x150000 // an invariant does not hold
	NotSent     = 0x160000 // the drive was not asked: its queue has failed before, or the batch was given up
	Fenced      = 0x170000 // a write of the page that nobody waited for may still be carried out
	MoveLost    = 0x180000 // a copy that the CPU began for the page was not answered
	WriteBack   = 0x200000 // added to a store's status: a page could not be written back and is where it was
)

// Numbers of the page table and its chains.
const (
	None        = 0xffffffff     // no frame, slot or page
	FreeMark    = 1 << 31        // in an owner word: free, the rest is the next free one
	CopyMark    = 1 << 30        // in a slot's owner word that is not free: the page is in T1, this is its clean copy
	ChainEnd    = 1<<31 - 1      // ends a chain of free ones
	MaxPage     = 1<<30 - 1      // pages are fewer
	MaxLocation = 1<<26 - 1      // frames and slots are fewer
	Stripes     = 128            // of the virtual time
	StripeBytes = 128            // of one; a hit finds its stripe by bits of an address
	Sampled     = uint64(1) << 5 // in an entry: accesses to the page are told of
)

// Stripe is one share of the virtual time.
type Stripe struct {
	Hits uint64 // found in T1 at once
	Slow uint64 // all others
	_    [14]uint64
}

// Counts are what tier.Counters has, and the bytes that each edge moved.
// T1 hits are LateHits and all of Stripe.Hits.
type Counts struct {
	LateHits       uint64
	Delayed        uint64
	T2Hits         uint64
	T3Fetches      uint64
	Overwrites     uint64
	Errors         uint64
	Evictions      uint64
	Keeps          uint64
	Demotions      uint64
	Bypasses       uint64
	T2Evictions    uint64
	Writebacks     uint64
	Prefetches     uint64
	PrefetchReads  uint64
	PrefetchErrors uint64
	Flushed        uint64 // pages that a flush wrote: not in Writebacks
	Crowded        uint64 // demotions that became bypasses: T2 or its spare slots were all in motion
	LostSlots      uint64 // times that a slot was put aside, since after a time-out a drive may still use it
	DroppedSamples uint64
	BytesT3Read    uint64
	BytesT3Write   uint64
	BytesPromoted  uint64
	BytesDemoted   uint64
	CopiesSaved    uint64       // of the demotions, those whose page's clean copy was still in T2
	RetakenSlots   uint64       // of the lost slots, those taken back
	LostRecords    uint64       // accesses that should have been recorded, and the CPU was too slow for
	Compactions    uint64       // of T2's order: everybody who puts a page into it waits
	CompactionNS   uint64       // that these took
	Granted        uint64       // evictions that gmt-reuse sent to T2 though bound for T3, against starvation
	Predicted      [4]uint64    // evictions by the class that gmt-reuse predicted: short, medium, long, unknown
	Judged         [4][3]uint64 // evictions whose page missed again, by predicted and by right class
	_              [3]uint64
}

// Edges between tiers are counted by duration in buckets, those of tier/host.
const (
	Edges       = 4
	Buckets     = 40
	MoveStripes = 16
)

// Moves counts pages that have crossed an edge by how long each took: bucket i those of
// 2^(i-1) to 2^i ns, the last all longer. A count is the sum of MoveStripes of them.
type Moves struct {
	Pages [Edges][Buckets]uint64
}

// Moves between a frame and a slot: which way, and by whom or why not by request.
const (
	ToDevice = 0
	ToHost   = 1

	ByKernel     = 0 // by the warp, as the host has chosen
	ByCopyEngine = 1 // by request
	RingFull     = 2 // by the warp: there was no place in the ring
	NotTaken     = 3 // by the warp: the CPU had not begun in time
	Refused      = 4 // by the warp: the CPU could not
	Unanswered   = 5 // begun by the CPU, which did not answer: MoveLost
	Ways         = 6

	MoveRequest = 1 // kind of a request to device; + 1 to host. Arguments: frame, slot, bytes
)

// Mover says how pages move between frames and slots, and counts it.
type Mover struct {
	BamIO      uint64 // bamio's Engine whose requests the CPU serves
	PatienceNS uint64 // for the CPU to begin
	Over       uint64 // pinned uint64: no copy of requests below this number is in flight any more
	ByRequest  [2]uint32
	_          [12]uint64
	Pages      [2][Ways]uint64
	_          [4]uint64
}

// Hot is the words that many warps change.
type Hot struct {
	Hand          uint64
	_             [15]uint64
	FreeFrames    uint64 // tag << 32 | first free frame, or ChainEnd
	UsedFrames    uint32
	Starved       uint32
	FramesNeeded  uint32
	_             uint32
	LostFrames    uint64 // as FreeFrames: frames put aside
	LostMoves     uint64 // the latest request for one of them
	_             [11]uint64
	SlotHint      uint32
	_             [31]uint32
	SparesTaken   uint32 // by groups that bring a page or flush one, at most Slots - T2Frames
	_             [31]uint32
	LostSlots     uint64 // as FreeFrames, slots put aside
	_             [15]uint64
	T2Used        uint32
	T2Extra       uint32 // of these, places beyond T2's size
	_             [30]uint32
	LogHead       uint64
	_             [15]uint64
	LogTail       uint64
	_             [15]uint64
	LogGate       uint32
	_             [31]uint32
	FirstError    uint64 // status << 32 | page, 0: none
	_             [15]uint64
	SampleTail    uint64
	SampleTaken   uint64
	SampleGate    uint64
	ParamsVersion uint64
	ParamsLock    uint32
	_             [23]uint32
	StarveAt      uint64
	StarveT3      uint32
	StarveSecond  uint32
	_             [14]uint64
	RecordTail    uint64
	RecordTaken   uint64
	RecordStuck   uint64
	_             [13]uint64
	FreeSlots     [Stripes]SlotStack
}

// SlotStack is one of the stacks of free slots.
type SlotStack struct {
	Head uint64 // as Hot.FreeFrames
	_    [15]uint64
}

// ReuseParams is placement.ReuseParams, in the same layout.
type ReuseParams struct {
	Version     uint64
	Slope       float64
	Offset      float64
	Direct      uint64
	T1          uint64
	T1T2        uint64
	ShortBelow  uint64
	MediumBelow uint64
	Seed        uint64
	FirstBelow  uint64
	Window      uint32
	StarveAbove uint32
}

// ReusePage is placement's record of a page.
type ReusePage struct {
	EvictedAt uint64
	History   uint64
}

// Sample is an access to a sampled page, in pinned memory. Mark, written last,
// is the low half of the sample's number + 1.
type Sample struct {
	Now  uint64
	Page uint32
	Mark uint32
}

// Mailbox is what the CPU tells the GPU, in pinned memory. Version is written
// after Params[Version%2], Taken after all.
type Mailbox struct {
	Taken   uint64
	Gate    uint64 // parity: whoever sends sample number Gate waits until it was taken; all ones: nobody
	Version uint64
	_       uint64
	Params  [2]ReuseParams
	_       [6]uint64
}

// RecordBox is what the CPU tells the GPU of its ring of records, in pinned memory.
type RecordBox struct {
	Taken uint64 // records taken, in order
	_     [15]uint64
}

// What an Event tells of, beside the edges: what moves belong to.
const (
	MissEvent  = 4
	FlushEvent = 5
)

// Where Event.What has what: the kind in 4 bits, and from these bits on:
const (
	EventOp     = 4
	EventFailed = 6
	EventStripe = 7
	EventSM     = 16
)

// Event is a move that has ended, in pinned memory. Mark, written last, is the low half
// of its place + 1.
type Event struct {
	Begun  uint64 // globaltimer
	Ended  uint64
	Page   uint32
	Number uint32 // of the miss or flushed page that it belongs to
	What   uint32
	Mark   uint32
}

// EventBox is what the CPU tells the GPU of its ring of events, in pinned memory.
type EventBox struct {
	Taken uint64 // events taken, in order
	Clock uint64 // globaltimer, for the host
	_     [14]uint64
}

// EventLog is the ring of events.
type EventLog struct {
	Tail    uint64 // events put into the ring
	Taken   uint64 // of these, taken by the CPU, as last seen
	Begun   uint64 // misses and flushed pages, told of or not
	LeftOut uint64 // of those to be told of, the ones that there was no room for
	Cut     uint64 // events of the others that there was no room for
	_       [11]uint64
	Events  uint64 // pinned: Event[Count]
	Box     uint64 // pinned: EventBox
	Count   uint32 // a power of two
	Room    uint32 // Count less as many as there are threads
	Every   uint32 // one in so many misses is told of
	_       [25]uint32
}

// Engine is what kernels get, by address.
type Engine struct {
	Version   uint32
	PageShift uint32
	T1Policy  uint32
	Placer    uint32

	Pages    uint64
	Frames   uint32
	T2Frames uint32 // logical size of T2
	Slots    uint32 // T2Frames and the spare ones, at least one
	LogSize  uint32 // at least 2, and 2*T2Frames

	Entries     uint64 // uint64[Pages]
	Reuse       uint64 // ReusePage[Pages], gmt-reuse only
	FrameOwner  uint64 // uint32[Frames]: None at first
	FrameMemory uint64
	SlotOwner   uint64 // uint32[Slots]: a chain at first
	SlotOrder   uint64 // uint32[Slots]
	SlotMemory  uint64 // pinned
	Log         uint64 // uint32[LogSize]
	Stripes     uint64 // Stripe[Stripes]
	Counts      uint64
	Hot         uint64
	ReuseState  uint64 // ReuseParams[2], the first as in the mailbox; gmt-reuse only
	StarveBits  uint64 // uint32[(Window+31)/32], gmt-reuse only
	Samples     uint64 // pinned: Sample[SampleCount]
	Mailbox     uint64 // pinned
	SampleCount uint32 // a power of two
	Parity      uint32 // 1: refreshed parameters take effect at fixed virtual times

	Seed          uint64
	RandomBelow   uint64 // random: a draw of 53 bits below it is T2
	DeadlineNS    uint64 // of one wait
	PinDeadlineNS uint64 // for a frame while all are pinned
	Stop          uint64 // pinned uint32; or 0
	Store         uint64 // DriveLayout
	GiveUp        uint64 // 1: the first wait in vain sets Stop

	Records      uint64 // pinned: uint64[RecordCount]; 0: nothing is recorded
	RecordBox    uint64 // pinned
	RecordCount  uint32 // a power of two
	RecordRoom   uint32 // RecordCount less as many as there are threads
	RecordWaitNS uint64 // of one wait for the CPU
	Recorded     uint64 // bitmap of the pages that are recorded; 0: of those that are marked as sampled, all
	Observed     uint64 // of those that the placer observes, likewise

	Copies uint64 // uint32[Frames]: slot with the clean copy of the frame's page, None at first; 0: no page leaves one

	Fenced uint64 // uint32[Pages/32+1]: bitmap of the pages that have a fence
	Fences uint64 // uint64[Slots]: queue << 32 | page + 1 of a write from the slot that was lost; 0: none
	Moves  uint64 // Moves[MoveStripes]
	Events uint64 // EventLog; 0: nobody is told of moves
	Mover  uint64 // Mover; 0: warps move pages, and nobody counts how
}

// ArrayRef is an array as kernels get it, by value.
type ArrayRef struct {
	Version      uint32
	ElementShift uint8
	PageShift    uint8
	Flags        uint16 // Touches
	Engine       uint64
	Entries      uint64 // as in Engine
	FrameMemory  uint64
	FirstPage    uint32
	Nowhere      uint32 // a page that has an entry, never in T1: where indices that are none are looked for
	Length       uint64 // elements
	Name         uint64 // hash of the array's name
	Stripes      uint64 // as in Engine
}

// Touches in ArrayRef.Flags: T1's order is told of hits.
const Touches = 1

// DriveLayout is the block of the store of drives: page p is on drive
// p % Drives; T2's slots are bamio's payload buffers.
type DriveLayout struct {
	BamIO   uint64 // bamio's Engine
	BaseLBA uint64 // of page 0, on each drive
	Drives  uint32
	Blocks  uint32 // of a page
	_       [5]uint64
}
