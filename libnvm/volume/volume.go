package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Options describe a new volume.
type Options struct {
	PageSize  int  // bytes, a power of two from 512 to 16 MiB; 64 KiB when zero
	Checksums bool // keep a checksum of every page and verify it on every read
	// Force overwrites members that hold something else.
	Force bool
	// LogBytes is the size of each half of the intent log on a volume with
	// checksums, rounded to its unit. It bounds the pages written between two
	// checkpoints, at least 30 per 512 bytes and at least one batch. 1 MiB when zero.
	LogBytes int
	// MetadataTimeout is that of Volume.SetMetadataTimeout, from the first
	// operation of Create on.
	MetadataTimeout time.Duration
}

// OpenOptions are the choices at OpenWith.
type OpenOptions struct {
	// ReadOnly is what OpenReadOnly does.
	ReadOnly bool
	// MetadataTimeout is that of Volume.SetMetadataTimeout, from the first
	// operation of OpenWith on.
	MetadataTimeout time.Duration
}

// Volume is a set of members over which the pages of arrays are striped. Its
// methods may be called from several goroutines.
//
// Lock order: mu is the only lock. It is held during metadata I/O, checkpoints
// included, and for a moment by each completion on a volume with checksums.
type Volume struct {
	label    label // of member 0
	members  []Member
	zeroSum  uint64 // xxhash of a page of zeroes
	recovery Recovery
	patience *patience // what bounds metadata I/O; changed without mu

	mu     sync.Mutex
	meta   []*metaIO
	dir    *directory
	arrays map[uint64]*Array // open ones, by id
	queues int               // open queues
	closed bool
	broken error // metadata could not be written: only reads go on
	// readOnly says that nothing may be written; broken is then ErrReadOnly.
	readOnly bool
	sums     [][]*sumBlock
	dirty    []blockRef
	// tableFaults counts copies of table blocks that the storage has damaged,
	// until a Scrub reports them.
	tableFaults int
	dirFaults   uint64 // slots of the directory that load found damaged, likewise
	pending     map[uint64]*pendingPage
	logSeq      uint64 // units written in this epoch
	fences      map[uint64]fence
	fenced      atomic.Int64 // how many fences there are; changed under mu
}

// blockRef names a block of the checksum table.
type blockRef struct{ member, block int }

// pendingPage is a page with writes that are in flight or that failed. Its
// content may have the recorded checksum or any of sums.
type pendingPage struct {
	sums   []uint64
	flying int
}

// Recovery says what Open found out about the last use.
type Recovery struct {
	Unclean bool // the volume was not closed properly, or Uncertain
	// Uncertain is a volume of which the copy of the directory is damaged that would say whether
	// it was closed. It is as if it was: no page was being written, as far as checksums tell.
	Uncertain bool
	LastOwner string // who used it last
	Pages     int    // pages that were being written, and were looked at
	New       int    // of them, those that hold their new content
	Torn      int    // of them, those that hold neither old nor new content
}

// Create makes a volume on members, which it numbers in this order, and opens
// it. It refuses members that hold data unless o.Force is set. On success the
// volume owns the members; on an error they stay the caller's.
func Create(members []Member, o Options) (*Volume, error) {
	l, err := newLabel(members, &o)
	if err != nil {
		return nil, err
	}
	v, err := assemble(members, l, newPatience(o.MetadataTimeout))
	if err != nil {
		return nil, err
	}
	if err := v.format(o.Force); err != nil {
		return nil, errors.Join(err, v.closeMeta())
	}
	if err := v.start(); err != nil {
		return nil, errors.Join(err, v.closeMeta())
	}
	return v, nil
}

// newLabel checks the options and lays the volume out.
func newLabel(members []Member, o *Options) (*label, error) {
	if o.PageSize == 0 {
		o.PageSize = 64 << 10
	}
	if o.LogBytes == 0 {
		o.LogBytes = 1 << 20
	}
	if len(members) < 1 || len(members) > MaxMembers {
		return nil, fmt.Errorf("volume: %d members, 1 to %d are possible", len(members), MaxMembers)
	}
	if o.PageSize < MinPageSize || o.PageSize > MaxPageSize || o.PageSize&(o.PageSize-1) != 0 || o.LogBytes < 0 || o.LogBytes > 1<<30 {
		return nil, fmt.Errorf("volume: page size %d (a power of two from %d to %d) or log of %d bytes (at most 1 GiB) out of range",
			o.PageSize, MinPageSize, MaxPageSize, o.LogBytes)
	}
	l := &label{Version: FormatVersion, PageSize: uint32(o.PageSize), Members: uint32(len(members)), LogUnit: minLogUnit}
	copy(l.Magic[:], labelMagic)
	if _, err := rand.Read(l.UUID[:]); err != nil {
		return nil, fmt.Errorf("volume: UUID: %w", err)
	}
	smallest := members[0].Size()
	for i, m := range members {
		if m.BlockSize() > o.PageSize || m.BlockSize() > 4096 {
			return nil, fmt.Errorf("volume: %s has blocks of %d bytes, too large for pages of %d", m.Name(), m.BlockSize(), o.PageSize)
		}
		l.LogUnit = max(l.LogUnit, uint32(m.BlockSize()))
		l.Identities[i] = toDisk(m.Identity())
		smallest = min(smallest, m.Size())
	}
	if o.Checksums {
		l.Checksums = 1
		l.LogHalf = uint64(max(o.LogBytes/4096, 1) * 4096)
	}
	return l, l.plan(smallest)
}

// Open finds the volume that the members, in any order, make up, checks that
// it is complete and was not damaged, and recovers it when it was not closed.
// On success the volume owns the members.
func Open(members []Member) (*Volume, error) { return OpenWith(members, OpenOptions{}) }

// OpenWith is Open with options.
func OpenWith(members []Member, o OpenOptions) (*Volume, error) {
	p := newPatience(o.MetadataTimeout)
	sorted, l, err := identify(members, p)
	if err != nil {
		return nil, err
	}
	v, err := assemble(sorted, l, p)
	if err != nil {
		return nil, err
	}
	v.readOnly = o.ReadOnly
	if err := v.load(); err != nil {
		return nil, errors.Join(err, v.closeMeta())
	}
	if o.ReadOnly {
		v.broken = ErrReadOnly
		return v, nil
	}
	if err := v.start(); err != nil {
		return nil, errors.Join(err, v.closeMeta())
	}
	return v, nil
}

// assemble makes the volume in memory and opens the ways to its members.
func assemble(members []Member, l *label, p *patience) (*Volume, error) {
	v := &Volume{label: *l, members: members, patience: p, arrays: map[uint64]*Array{}, pending: map[uint64]*pendingPage{}, fences: map[uint64]fence{}}
	v.zeroSum = xxhash.Sum64(make([]byte, l.PageSize))
	bytes := max(dirSlot, int(l.PageSize), int(l.LogHalf))
	for _, m := range members {
		io, err := openMeta(m, bytes, p)
		if err != nil {
			return nil, errors.Join(err, v.closeMeta())
		}
		v.meta = append(v.meta, io)
	}
	if l.Checksums == 1 {
		v.sums = make([][]*sumBlock, len(members))
		for i := range v.sums {
			v.sums[i] = make([]*sumBlock, l.TableBlocks)
		}
	}
	return v, nil
}

func (v *Volume) closeMeta() error {
	var errs []error
	for _, io := range v.meta {
		errs = append(errs, io.close())
	}
	v.meta = nil
	return errors.Join(errs...)
}

// start marks the volume as open, under a new epoch.
func (v *Volume) start() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := *v.dir
	d.open, d.owner = true, owner()
	return v.commit(&d)
}

// owner describes this process for the next one to find.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %.64s", os.Getpid(), host)
}

// commit writes d as the newest directory, durably, to the slot of the older
// one. Needs mu.
func (v *Volume) commit(d *directory) error {
	d.generation = v.dir.generation + 1
	io := v.meta[0]
	if err := d.encode(v.label.UUID, io.buf); err != nil {
		return err
	}
	if err := io.write(slotOffset(d.generation), dirSlot, true); err != nil {
		// Whether it reached the disk is not known, so nothing may be built on
		// either state.
		v.broken = fmt.Errorf("volume: directory not written, open the volume again: %w", err)
		return v.broken
	}
	v.dir = d
	return nil
}

func slotOffset(generation uint64) int64 { return dirOffset + int64(generation%2)*dirSlot }

// Close writes out the checksums and marks the volume as clean, then closes the
// members. Arrays and queues must have been closed. A *DurabilityError says that
// all was done but that writes which timed out could still land until then.
func (v *Volume) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	if len(v.arrays) > 0 || v.queues > 0 {
		return ErrBusy
	}
	v.closed = true
	err := v.broken
	if v.readOnly {
		err = nil
	} else if err == nil {
		err = v.finish()
	}
	errs := []error{err, v.unknown(), v.closeMeta()}
	for _, m := range v.members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// finish makes everything durable and the volume clean. Pages whose last write
// failed are recorded as torn: nobody will remember their candidates.
func (v *Volume) finish() error {
	for p := range v.pending {
		if err := v.setSum(p, tornMark); err != nil {
			return err
		}
	}
	clear(v.pending)
	if err := v.checkpoint(); err != nil {
		return err
	}
	d := *v.dir
	d.open = false
	return v.commit(&d)
}

// PageSize is the size of a page in bytes.
func (v *Volume) PageSize() int { return int(v.label.PageSize) }

// Pages is the number of pages that the members hold together.
func (v *Volume) Pages() uint64 { return v.label.Slots * uint64(v.label.Members) }

// Checksums says whether pages have checksums.
func (v *Volume) Checksums() bool { return v.label.Checksums == 1 }

// UUID is the volume's name for good.
func (v *Volume) UUID() [16]byte { return v.label.UUID }

// Members are the volume's members in stripe order.
func (v *Volume) Members() []Member { return append([]Member(nil), v.members...) }

// Recovery says what Open found.
func (v *Volume) Recovery() Recovery { return v.recovery }

// locate is where a volume page lies: page p is slot p/n of member p mod n.
func (v *Volume) locate(page uint64) (member int, offset int64) {
	n := uint64(v.label.Members)
	return int(page % n), int64(v.label.DataOffset + page/n*uint64(v.label.PageSize))
}
