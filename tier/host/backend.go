package host

import "context"

// Engine is the memory of T1 and T2 and what moves bytes within. Its calls come
// one at a time and return when the bytes have arrived.
type Engine interface {
	// Name says what carries T1, for reports.
	Name() string
	// Out copies frames of T1 to slots of T2.
	Out(list []Copy) error
	// In copies slots of T2 to frames of T1.
	In(list []Copy) error
	// Accepts says why elements cannot be moved from or to the buffer, or nil.
	Accepts(b Buffer) error
	// Load copies pieces of frames to dst.
	Load(dst Buffer, list []Piece) error
	// Store copies src to pieces of frames.
	Store(src Buffer, list []Piece) error
	// Close releases the memory of both tiers.
	Close() error
}

// Copy is a page on its way between a frame and a slot.
type Copy struct{ Frame, Slot int32 }

// Piece is a part of a frame and its place in a buffer.
type Piece struct {
	Frame  int32
	Offset int32 // in the frame, bytes
	Length int32 // bytes
	At     int64 // in the buffer, bytes
}

// Buffer is memory of the caller: ordinary memory, or memory of the GPU that T1
// lies in.
type Buffer struct {
	Bytes  []byte
	Device uint64 // address on the GPU; used when Bytes is nil
	Size   int64  // bytes behind Device
	Stream any    // with Device: the caller's stream, in whose order the buffer is used
}

func (b Buffer) size() int64 {
	if b.Bytes != nil {
		return int64(len(b.Bytes))
	}
	return b.Size
}

// Tier3 is where pages lie that no tier above holds. Its calls come one at a time.
type Tier3 interface {
	// Drive numbers the drive that has a page: one that answers nothing any more keeps no
	// flush of others' pages up.
	Drive(array int, page uint64) int
	// Start begins requests that are independent of each other. An error means
	// that none was started.
	Start(list []Request) (Pending, error)
	// Flush makes every write that has ended durable.
	Flush(ctx context.Context) error
	// Recover ends, for good, whatever of earlier requests may still be under way
	// (Request.Late). An error means that some may still land.
	Recover(ctx context.Context) error
}

// Pending is a set of requests that was started.
type Pending interface {
	// Wait returns when every request has its Err, nil for success. An error of
	// its own means that what became of them is unknown and their slots may still
	// be in use.
	Wait(ctx context.Context) error
}

// Request is a page on its way between T3 and a slot of T2.
type Request struct {
	Array int    // as given to NewArray
	Page  uint64 // in the array
	Slot  int32
	Write bool
	Err   error
	Late  bool // with an Err: it may still be carried out, until Recover
}
