package bamio

import (
	"unsafe"

	"github.com/tritier/tritier/bamio/layout"
)

// image says where in GPU memory what lies. What changes while kernels run is
// together, so that one copy brings it to the host.
type image struct {
	size   int
	drives int
	queues int // begin of what changes
	cids   int
	ring   int // end of what changes is behind the ring
	ready  int
}

const (
	engineBytes = int(unsafe.Sizeof(layout.Engine{}))
	driveBytes  = int(unsafe.Sizeof(layout.Drive{}))
	queueBytes  = int(unsafe.Sizeof(layout.Queue{}))
	cidBytes    = int(unsafe.Sizeof(layout.Cid{}))
	ringBytes   = int(unsafe.Sizeof(layout.RequestRing{}))
	failedAt    = int(unsafe.Offsetof(layout.Queue{}.Failed))
	line        = 128 // alignment of queues, a line of the GPU's cache
)

func lines(n int) int { return (n + line - 1) / line * line }

// plan lays out the structs of so many drives and queues.
func (m *image) plan(drives, queues, depth int) {
	m.drives = lines(engineBytes)
	m.queues = m.drives + lines(drives*driveBytes)
	m.cids = m.queues + queues*queueBytes
	m.ring = lines(m.cids + queues*(depth-1)*cidBytes)
	m.ready = m.ring + ringBytes
	m.size = m.ready + queues*lines(depth*4)
}

// live is the size of what changes.
func (m *image) live() int { return m.ready - m.queues }

// fill makes the contents of GPU memory.
func (e *Engine) fill() []byte {
	m, at := &e.image, uint64(e.at)
	b := words(m.size)
	eng := &recordsIn[layout.Engine](b, 0, 1)[0]
	*eng = layout.Engine{
		Version: layout.Version, DriveCount: uint32(len(e.drives)), QueueCount: uint32(len(e.queues)),
		Drives: at + uint64(m.drives), Queues: at + uint64(m.queues),
		DeadlineNS: e.Deadline(), Stop: uint64(e.control.DevicePtr()) + stopAt,
		Payload: layout.Payload{
			Base: e.payload.base, IOVA: e.iova(0), Lists: e.listIOVA(0),
			Bytes: uint32(e.payload.buffer), ListBytes: uint32(e.payload.list), Count: uint32(e.payload.count),
		},
	}
	if e.opts.Requests > 0 {
		eng.Requests = at + uint64(m.ring)
		recordsIn[layout.RequestRing](b, m.ring, 1)[0] = layout.RequestRing{
			Slots: uint64(e.control.DevicePtr()) + slotsAt, Count: uint32(e.opts.Requests),
		}
	}
	drives := recordsIn[layout.Drive](b, m.drives, len(e.drives))
	for i, d := range e.drives {
		drives[i] = layout.Drive{
			Blocks: d.ns.Blocks, BlockSize: uint32(d.ns.BlockSize),
			MaxBlocks:  uint32(min(d.port.ctrl.MaxTransfer()/d.ns.BlockSize, 1<<16)), // NLB is 16 bits, zero-based
			FirstQueue: uint32(d.first), QueueCount: uint32(d.count), ID: uint32(i),
			IOVA: e.iova(i), Lists: e.listIOVA(i),
		}
	}
	queues := recordsIn[layout.Queue](b, m.queues, len(e.queues))
	for i := range e.queues {
		e.fillQueue(&queues[i], i, b)
	}
	return b
}

// iova is the payload as the controller of drive i sees it.
func (e *Engine) iova(i int) uint64 { return e.drives[i].port.buffers.iova }

// listIOVA is the PRP lists as the controller of drive i sees them. They lie in
// one piece: writeLists has made sure.
func (e *Engine) listIOVA(i int) uint64 {
	a, _ := e.drives[i].port.lists.IOVA(0)
	return a
}

// first is what the counters start at: a multiple of two laps, so that slot and
// phase are those of a new queue.
func (e *Engine) first() uint64 {
	lap := 2 * uint64(e.depth)
	return e.opts.FirstEntry / lap * lap
}

func (e *Engine) fillQueue(l *layout.Queue, i int, b []byte) {
	q, m, at := e.queues[i], &e.image, uint64(e.at)
	port, n := e.drives[q.drive].port, e.depth-1
	ready := m.ready + i*lines(e.depth*4)
	*l = layout.Queue{
		SQ: uint64(q.sq.DevicePtr()), CQ: uint64(q.cq.DevicePtr()),
		SQDoorbell: port.doorbell(q.at.SQDoorbellOffset), CQDoorbell: port.doorbell(q.at.CQDoorbellOffset),
		Ready: at + uint64(ready), Cids: at + uint64(m.cids+i*n*cidBytes),
		Depth: uint32(e.depth), CQDepth: uint32(e.depth), CidCount: uint32(n),
		ID: uint32(q.at.ID), NSID: e.drives[q.drive].ns.ID, Drive: uint32(q.drive),
	}
	first := e.first()
	l.Tickets, l.Rung, l.Freed, l.CQHead, l.NextCid = first, first, first, first, first
	if first == 0 {
		return // a mark is never zero in the first lap
	}
	// The marks of the lap before: none can be mistaken for one of this lap.
	marks := recordsIn[uint32](b, ready, e.depth)
	for s := range marks {
		marks[s] = uint32(first) + uint32(s) - uint32(e.depth) + 1
	}
}
