package gpu

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/layout"
)

// The parts of the memory that kernels and the CPU share.
const (
	reportAt    = 0
	mailboxAt   = 2048
	moverAt     = 3072 // layout.Mover.Over's word
	samplesAt   = 4096
	sampleCount = 1 << 13
	sharedBytes = samplesAt + 16*sampleCount
)

// askBatch asks the batch that runs to end. Its kernel reads the word beside this.
func (e *Engine) askBatch() {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&e.shared.Bytes()[reportAt+reportStopAt])), 1)
}

// reportWord is a word of the report that the batch changes while it runs.
func (e *Engine) reportWord(at int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&e.shared.Bytes()[reportAt+at])))
}

// tellOver tells kernels that no copy of requests below number n is in flight any more.
func (e *Engine) tellOver(n uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&e.shared.Bytes()[moverAt])), n)
}

func (e *Engine) sharedPtr(at uint64) uint64 { return uint64(e.shared.DevicePtr().Add(at)) }

// params is placement's parameter block as kernels have it: the same fields.
func params(p placement.ReuseParams) layout.ReuseParams {
	return layout.ReuseParams{Version: p.Version, Slope: p.Slope, Offset: p.Offset, Direct: p.Direct, T1: p.T1, T1T2: p.T1T2,
		ShortBelow: p.Short, MediumBelow: p.Medium, Seed: p.Seed, FirstBelow: p.FirstBelow, Window: p.Window, StarveAbove: p.StarveAbove}
}

// startMailbox writes what kernels find before the first sample.
func (e *Engine) startMailbox(gate uint64, p placement.ReuseParams) {
	copy(e.shared.Bytes()[mailboxAt:], encode(layout.Mailbox{Gate: gate, Params: [2]layout.ReuseParams{params(p), params(p)}}))
}

// mailbox is the CPU's side of gmt-reuse's samples. Kernels read its words with
// acquire and write a sample's mark with release, at system scope; Go's atomics are
// at least that.
type mailbox struct{ b []byte }

func (m mailbox) word(at int) *uint64 { return (*uint64)(unsafe.Pointer(&m.b[mailboxAt+at])) }

// sample is sample number n, if it has come.
func (m mailbox) sample(n uint64) (now uint64, page placement.Page, ok bool) {
	at := samplesAt + 16*int(n%sampleCount)
	if atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.b[at+12]))) != uint32(n)+1 {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(m.b[at:]), placement.Page(binary.LittleEndian.Uint32(m.b[at+8:])), true
}

// publish puts trusted parameters in force.
func (m mailbox) publish(p placement.ReuseParams) {
	at := mailboxAt + int(unsafe.Offsetof(layout.Mailbox{}.Params)) + int(p.Version%2)*int(unsafe.Sizeof(layout.ReuseParams{}))
	copy(m.b[at:], encode(params(p)))
	atomic.StoreUint64(m.word(int(unsafe.Offsetof(layout.Mailbox{}.Version))), p.Version)
}

// took tells kernels how far the samples were taken, and in parity which one they
// have to wait for.
func (m mailbox) took(n, gate uint64) {
	atomic.StoreUint64(m.word(int(unsafe.Offsetof(layout.Mailbox{}.Gate))), gate)
	atomic.StoreUint64(m.word(int(unsafe.Offsetof(layout.Mailbox{}.Taken))), n)
}

// recordsAt is where records begin, behind layout.RecordBox.
const recordsAt = 4096

// ring is the CPU's side of the ring of records.
type ring struct {
	b     []byte
	count uint64
}

// record is record number n, if it has come.
func (r ring) record(n uint64) (Access, bool) {
	w := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.b[recordsAt+8*(n&(r.count-1))])))
	if uint32(w>>32) != uint32(n)+1 {
		return Access{}, false
	}
	return Access{uint64(uint32(w) >> 2), tier.Op(w & 3)}, true
}

// took tells kernels that records below n were taken.
func (r ring) took(n uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.b[0])), n) }

// Where the parts of the memory of events are: layout.EventBox is at its beginning.
const (
	eventBytes = int(unsafe.Sizeof(layout.Event{}))
	clockAt    = uint64(unsafe.Offsetof(layout.EventBox{}.Clock))
	eventsAt   = 4096
)

// eventRing is the CPU's side of the ring of events.
type eventRing struct {
	b     []byte
	count uint64
}

// event is event number n, if it has come.
func (r eventRing) event(n uint64) (layout.Event, bool) {
	v := (*layout.Event)(unsafe.Pointer(&r.b[eventsAt+eventBytes*int(n&(r.count-1))]))
	if atomic.LoadUint32(&v.Mark) != uint32(n)+1 {
		return layout.Event{}, false
	}
	return *v, true
}

// took tells kernels that events below n were taken.
func (r eventRing) took(n uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.b[0])), n) }

// clockWord is where kernels write what time it is.
func clockWord(m *cuda.HostMemory) *uint64 { return (*uint64)(unsafe.Pointer(&m.Bytes()[clockAt])) }

func newMailbox(m *cuda.HostMemory) mailbox { return mailbox{m.Bytes()} }
