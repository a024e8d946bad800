package bamiofake

import (
	"fmt"
	"unsafe"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/cuda/cudafake"
)

// records is n records at an address of the GPU.
func records[T any](l *cudafake.Launch, addr uint64, n int) ([]T, error) {
	var t T
	size := uint64(n) * uint64(unsafe.Sizeof(t))
	b, err := l.Memory(addr, size)
	if err != nil {
		return nil, err
	}
	if addr%uint64(unsafe.Alignof(t)) != 0 {
		return nil, fmt.Errorf("%d bytes at %#x are not aligned", size, addr)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

// entry is a submission entry as the ring holds it.
type entry struct {
	dw0, nsid           uint32
	_                   [2]uint64
	prp1, prp2          uint64
	cdw10, cdw11, cdw12 uint32
	_                   [3]uint32
}

// completion is an entry of the completion queue.
type completion struct{ dw0, _, dw2, dw3 uint32 }

// Device is an engine as a kernel sees it. Its methods may be called from many
// goroutines, which stand for the GPU's threads.
type Device struct {
	launch   *cudafake.Launch
	Engine   layout.Engine
	Drives   []layout.Drive
	queues   []port
	payload  []byte
	stop     *uint32
	ring     *layout.RequestRing
	requests []layout.Request
}

// port is a queue with its memory.
type port struct {
	q        *layout.Queue
	sq       []entry
	cq       []completion
	sqDB     *uint32
	cqDB     *uint32
	ready    []uint32
	cids     []layout.Cid
	cidBits  uint
	depth    uint64
	cqDepth  uint64
	cidCount uint64
}

// Open reads the engine at an address, as kernels get it, and checks that the
// kernel may touch all that it names.
func Open(l *cudafake.Launch, addr uint64) (*Device, error) {
	e, err := records[layout.Engine](l, addr, 1)
	if err != nil {
		return nil, err
	}
	d := &Device{launch: l, Engine: e[0]}
	if d.Engine.Version != layout.Version {
		return nil, fmt.Errorf("layout version %d, not %d", d.Engine.Version, layout.Version)
	}
	if d.Drives, err = records[layout.Drive](l, d.Engine.Drives, int(d.Engine.DriveCount)); err != nil {
		return nil, err
	}
	queues, err := records[layout.Queue](l, d.Engine.Queues, int(d.Engine.QueueCount))
	if err != nil {
		return nil, err
	}
	for i := range queues {
		p, err := openPort(l, &queues[i])
		if err != nil {
			return nil, fmt.Errorf("queue %d: %w", i, err)
		}
		d.queues = append(d.queues, p)
	}
	if d.stop, err = l.Word32(d.Engine.Stop); err != nil {
		return nil, err
	}
	y := &d.Engine.Payload
	if d.payload, err = l.Memory(y.Base, uint64(y.Bytes)*uint64(y.Count)); err != nil {
		return nil, err
	}
	if d.Engine.Requests == 0 {
		return d, nil
	}
	r, err := records[layout.RequestRing](l, d.Engine.Requests, 1)
	if err != nil {
		return nil, err
	}
	d.ring = &r[0]
	d.requests, err = records[layout.Request](l, d.ring.Slots, int(d.ring.Count))
	return d, err
}

func openPort(l *cudafake.Launch, q *layout.Queue) (p port, err error) {
	p = port{q: q, depth: uint64(q.Depth), cqDepth: uint64(q.CQDepth), cidCount: uint64(q.CidCount)}
	for 1<<p.cidBits < p.cidCount {
		p.cidBits++
	}
	if p.sq, err = records[entry](l, q.SQ, int(q.Depth)); err != nil {
		return p, err
	}
	if p.cq, err = records[completion](l, q.CQ, int(q.CQDepth)); err != nil {
		return p, err
	}
	if p.ready, err = records[uint32](l, q.Ready, int(q.Depth)); err != nil {
		return p, err
	}
	if p.cids, err = records[layout.Cid](l, q.Cids, int(q.CidCount)); err != nil {
		return p, err
	}
	if p.sqDB, err = l.Word32(q.SQDoorbell); err != nil {
		return p, err
	}
	p.cqDB, err = l.Word32(q.CQDoorbell)
	return p, err
}

// Queue is the live struct of a queue, for tests that look or break things.
func (d *Device) Queue(i int) *layout.Queue { return d.queues[i].q }

// Buffer is payload buffer i.
func (d *Device) Buffer(i int) []byte {
	n := int(d.Engine.Payload.Bytes)
	return d.payload[i*n : (i+1)*n : (i+1)*n]
}
