package guest

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/vfio"
)

// bufferBytes is the size of a payload buffer, more than a command may move, and listBytes that of its PRP list, a power of two.
const (
	bufferBytes = 128 << 10
	listBytes   = 256
)

// group is the queues that one namespace gets.
type group struct {
	nsid          uint32
	queues, depth int
}

// rig is a controller whose queues belong to the program, with the structs that tell it of them.
type rig struct {
	tr      *vfio.Transport
	c       *libnvm.Controller
	region  vfio.Region
	arena   *arena
	iova    uint64 // of the arena
	whole   *libnvm.Memory
	ns      []*libnvm.Namespace
	groups  []group
	pairs   []*libnvm.QueuePair
	buffers int

	// Offsets in the arena.
	engine, drives, queues, stop, versions, lists, payload int
	cids, ready                                            []int // of each queue
}

const maxVersions = 1 << 16 // blocks that have a version

// newRig brings a drive up and makes its queues.
func newRig(t *testing.T, serial string, buffers int, groups ...group) *rig {
	t.Helper()
	r := &rig{groups: groups, buffers: buffers, arena: newArena(t, 4<<20+buffers*bufferBytes)}
	t.Cleanup(func() { r.arena.close(t) })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	r.tr, err = vfio.Open(addresses()[serial], vfio.Options{Bind: true, Force: true, Interface: vfio.Group})
	must(err)
	t.Cleanup(func() { check(t, r.tr.Close()) })
	r.whole, err = r.tr.Map(r.arena.b)
	must(err)
	t.Cleanup(func() { check(t, r.whole.Free()) }) // after the controller is closed
	r.iova, err = r.whole.IOVA(0)
	must(err)
	r.c, err = libnvm.Open(r.tr, libnvm.Config{IOTimeout: 20 * time.Second})
	must(err)
	t.Cleanup(func() { check(t, r.c.Close()) })
	must(r.c.EnableEvents(0))
	r.region, err = r.tr.ShareBAR(0)
	must(err)
	t.Cleanup(func() { check(t, unix.Close(r.region.FD)) })
	r.plan(t)
	for _, g := range groups {
		ns, err := r.c.Namespace(g.nsid)
		must(err)
		r.ns = append(r.ns, ns)
		for range g.queues {
			q, err := r.c.CreateQueuePair(libnvm.QueueConfig{Depth: g.depth, SQ: r.piece(t, g.depth*64), CQ: r.piece(t, g.depth*16)})
			must(err)
			r.pairs = append(r.pairs, q)
			r.cids = append(r.cids, r.arena.take(t, (g.depth-1)*sizeOf[layout.Cid]()))
			r.ready = append(r.ready, r.arena.take(t, g.depth*4))
		}
	}
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// plan takes the places of everything but the queues.
func (r *rig) plan(t *testing.T) {
	n := 0
	for _, g := range r.groups {
		n += g.queues
	}
	a := r.arena
	r.engine = a.take(t, sizeOf[layout.Engine]())
	r.drives = a.take(t, len(r.groups)*sizeOf[layout.Drive]())
	r.queues = a.take(t, n*sizeOf[layout.Queue]())
	r.stop = a.take(t, 4)
	r.versions = a.take(t, 4*maxVersions)
	r.lists = a.take(t, r.buffers*listBytes)
	r.payload = a.take(t, r.buffers*bufferBytes)
}

// piece is n bytes of the arena as memory of the drive.
func (r *rig) piece(t *testing.T, n int) *libnvm.Memory {
	t.Helper()
	at := r.arena.take(t, n)
	m, err := libnvm.NewMemory(r.arena.b[at:at+n], r.iova+uint64(at), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fill writes the structs for queues that are new or were reset. The counters start at a whole number of double laps at most before first, so
// that the controller and the queue code agree on slots and phases.
func (r *rig) fill(t *testing.T, deadline time.Duration, first uint64) {
	t.Helper()
	a := r.arena
	*r.engineStruct() = layout.Engine{
		Version: layout.Version, DriveCount: uint32(len(r.groups)), QueueCount: uint32(len(r.pairs)),
		Drives: address(r.drives), Queues: address(r.queues), Stop: address(r.stop), DeadlineNS: uint64(deadline),
		Payload: layout.Payload{
			Base: address(r.payload), Bytes: bufferBytes, ListBytes: listBytes, Count: uint32(r.buffers),
			IOVA: r.iova + uint64(r.payload), Lists: r.iova + uint64(r.lists),
		},
	}
	a.store(r.stop, 0)
	next := 0
	for i, g := range r.groups {
		records[layout.Drive](a, r.drives, len(r.groups))[i] = layout.Drive{
			Blocks: r.ns[i].Blocks, BlockSize: uint32(r.ns[i].BlockSize), MaxBlocks: uint32(r.c.MaxTransfer() / r.ns[i].BlockSize),
			FirstQueue: uint32(next), QueueCount: uint32(g.queues), ID: uint32(i),
			IOVA: r.iova + uint64(r.payload), Lists: r.iova + uint64(r.lists),
		}
		for range g.queues {
			r.fillQueue(next, i, first)
			next++
		}
	}
	for i := range r.buffers {
		for k := range bufferBytes/libnvm.PageSize - 1 {
			page := r.iova + uint64(r.payload+i*bufferBytes+(k+1)*libnvm.PageSize)
			binary.LittleEndian.PutUint64(a.b[r.lists+i*listBytes+8*k:], page)
		}
	}
}

func (r *rig) engineStruct() *layout.Engine { return &records[layout.Engine](r.arena, r.engine, 1)[0] }

func (r *rig) queueStructs() []layout.Queue {
	return records[layout.Queue](r.arena, r.queues, len(r.pairs))
}

// begin is where the counters of a queue start.
func begin(first uint64, depth int) uint64 { return first / uint64(2*depth) * uint64(2*depth) }

func (r *rig) fillQueue(i, drive int, first uint64) {
	at, depth := r.pairs[i].Layout(), r.pairs[i].Depth()
	first = begin(first, depth)
	ring := func(iova uint64) uint64 { return arenaAt + iova - r.iova }
	r.queueStructs()[i] = layout.Queue{
		SQ: ring(at.SQIOVA), CQ: ring(at.CQIOVA),
		SQDoorbell: registersAt + uint64(at.SQDoorbellOffset), CQDoorbell: registersAt + uint64(at.CQDoorbellOffset),
		Ready: address(r.ready[i]), Cids: address(r.cids[i]),
		Depth: uint32(depth), CQDepth: uint32(depth), CidCount: uint32(depth - 1),
		ID: uint32(at.ID), NSID: r.groups[drive].nsid, Drive: uint32(drive),
		Tickets: first, NextCid: first, Rung: first, Freed: first, CQHead: first,
	}
	clear(records[layout.Cid](r.arena, r.cids[i], depth-1))
	for s := range depth {
		mark := uint32(0)
		if first != 0 { // that of the lap before
			mark = uint32(first) + uint32(s) - uint32(depth) + 1
		}
		records[uint32](r.arena, r.ready[i], depth)[s] = mark
	}
}
