package bamio

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/vfio"
)

// Place is where something lies, in words for reports.
type Place string

// The places.
const (
	PinnedHost Place = "pinned host memory"
	SharedHost Place = "host memory shared with the software controller"
	DriveBAR   Place = "the drive's registers, mapped into the GPU"
	GPUMemory  Place = "GPU memory"
	Nowhere    Place = "not reachable for the GPU"
)

// What a Blocker is in the way of.
const (
	PeerRings     = "queues in GPU memory"
	PeerPayload   = "payload into GPU memory"
	GPUDoorbells  = "doorbells that the GPU rings"
	noPeerSupport = "its driver exports no memory to other devices"
)

// Blocker is one thing that is in the way of a better path.
type Blocker struct {
	Of     string // PeerRings, PeerPayload or GPUDoorbells
	On     string // the drive or GPU
	Reason string
	Remedy string // "" where nothing can be done about it
	Err    error  // what the system said, or nil
}

// String is the blocker in one line.
func (b Blocker) String() string {
	s := fmt.Sprintf("%s: %s: %s", b.Of, b.On, b.Reason)
	if b.Err != nil {
		s += ": " + b.Err.Error()
	}
	if b.Remedy != "" {
		s += "; " + b.Remedy
	}
	return s
}

// Path is the way that I/O takes: where queues and doorbells lie and where
// payload passes, and what is in the way of better places.
type Path struct {
	Rings, Doorbells, Payload Place
	Blockers                  []Blocker
}

// String is the path in one line, without the blockers.
func (p Path) String() string {
	return fmt.Sprintf("queues in %s, doorbells in %s, payload through %s", p.Rings, p.Doorbells, p.Payload)
}

// Features is what this version can do, for the machine report of tritier doctor:
// GPU threads write NVMe requests, and (not yet, since no transport of libnvm
// imports GPU memory) a drive writes into GPU memory.
func Features() (gpuInitiated, peerToPeer bool) {
	_, peer := any((*vfio.Transport)(nil)).(DMABufImporter)
	return true, peer
}

// Probe finds out which path Open would take, without keeping anything: it maps
// every drive's doorbells for a moment and exports a piece of GPU memory if the
// drives could import it. An error is one of looking, not a finding.
func Probe(gpu *cuda.Context, drives []Drive) (path Path, err error) {
	e := &Engine{gpu: gpu, opts: Options{GPU: gpu, Drives: drives, Queues: len(drives), Depth: 2, Buffers: 1, BufferBytes: page, HostPayload: true}}
	if e.opts, err = e.opts.withDefaults(); err != nil {
		return path, err
	}
	defer func() { err = errors.Join(err, e.release()) }()
	if err := errors.Join(e.findDrives(), e.createQueues()); err != nil {
		return path, err
	}
	e.lookAtQueues()
	for _, p := range e.ports {
		if err := e.registerDoorbells(p); err != nil {
			e.path.Doorbells = Nowhere
			e.path.Blockers = append(e.path.Blockers, Blocker{GPUDoorbells, p.name, "the GPU cannot map them", doorbellRemedy(p, err), errors.Unwrap(err)})
		}
	}
	blockers, err := e.tryPeer(page)
	if e.path.Payload = GPUMemory; len(blockers) > 0 {
		e.path.Payload = PinnedHost
	}
	e.path.Blockers = append(e.path.Blockers, blockers...)
	return e.path, err
}

// lookAtQueues says where rings and doorbells lie and why not in GPU memory.
func (e *Engine) lookAtQueues() {
	var rings, doorbells []string
	add := func(to *[]string, p Place) {
		if !slices.Contains(*to, string(p)) {
			*to = append(*to, string(p))
		}
	}
	for _, p := range e.ports {
		b := Blocker{Of: PeerRings, On: p.name}
		if p.soft {
			add(&rings, SharedHost)
			add(&doorbells, SharedHost)
			b.Reason = "its controller is the CPU, which cannot read GPU memory"
		} else {
			add(&rings, PinnedHost)
			add(&doorbells, DriveBAR)
			b.Reason = fmt.Sprintf("the driver sets queues up through the CPU, and its %s transport imports no GPU memory for them", p.ctrl.Transport().Name())
		}
		e.path.Blockers = append(e.path.Blockers, b)
	}
	e.path.Rings, e.path.Doorbells = Place(strings.Join(rings, " and ")), Place(strings.Join(doorbells, " and "))
}

// peerBlockers is what is in the way of payload in GPU memory, as far as it can
// be told without trying.
func peerBlockers(gpu *cuda.Context, ports []*port) []Blocker {
	var bs []Blocker
	for _, p := range ports {
		if b := peerBlocker(p.name, p.ctrl.Transport()); b != nil {
			bs = append(bs, *b)
		}
	}
	on := gpu.Device().String()
	for _, x := range []struct {
		attribute cuda.Attribute
		reason    string
	}{
		{cuda.DMABufSupported, noPeerSupport + " (no dma-buf)"},
		{cuda.GPUDirectRDMASupported, noPeerSupport + " (no GPUDirect RDMA)"},
	} {
		if v, err := gpu.Device().Attribute(x.attribute); v == 0 {
			bs = append(bs, Blocker{PeerPayload, on, x.reason, "a data-centre GPU with the open kernel modules has it", err})
		}
	}
	return bs
}

// peerBlocker is what is in the way on the side of a drive.
func peerBlocker(name string, tr libnvm.Transport) *Blocker {
	if _, ok := tr.(DMABufImporter); ok {
		return nil
	}
	b := &Blocker{Of: PeerPayload, On: name}
	switch tr.Name() {
	case softName:
		b.Reason = "its service threads copy with the CPU, which cannot reach GPU memory"
	case "raw":
		b.Reason = "without an IOMMU the drive needs physical addresses, which GPU memory has none of that are known"
		b.Remedy = "turn the IOMMU on and reach the drive through VFIO"
	default:
		b.Reason = fmt.Sprintf("the %s transport of this version imports no dma-buf", tr.Name())
	}
	return b
}
