package soft

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/uring"
	"github.com/tritier/tritier/libnvm"
)

// reqKind is a system call, or the io_uring operation of the same name.
type reqKind uint8

const (
	reqRead reqKind = iota
	reqWrite
	reqSync
	reqFallocate
)

// fileOp is the progress of one Op on a File: a sequence of requests to the
// kernel, of which next holds the one to issue. It has one owner at a time.
type fileOp struct {
	file *File
	op   *Op
	next reqKind
	mode uint32 // of fallocate

	segments []unix.Iovec // what is still to move; a copy, since it is cut up
	off      int64
	left     int64
	bounce   []byte // aligned memory that stands in for the segments, or nil
	backing  []unix.Iovec
	repeats  int // of requests that were interrupted
}

// begin sets up the first request of op. True says that the op is finished
// without one.
func (f *fileOp) begin(op *Op) bool {
	f.op, f.off, f.left, f.repeats = op, op.Offset, op.Length, 0
	op.Status = libnvm.StatusSuccess
	if f.file.o.ReadOnly && op.Kind != OpRead && op.Kind != OpFlush {
		op.Status = libnvm.StatusWriteProtected
		return true
	}
	switch op.Kind {
	case OpRead, OpWrite:
		return f.beginMove()
	case OpFlush:
		return f.beginSync()
	case OpWriteZeroes:
		f.beginZeroes()
	case OpDiscard:
		if f.file.noPunch.Load() {
			return true // discard is advice
		}
		f.next, f.mode = reqFallocate, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE
	default:
		op.Status = libnvm.StatusInvalidOpcode
		return true
	}
	return op.Length == 0
}

func (f *fileOp) beginMove() bool {
	f.next = reqRead
	if f.op.Kind == OpWrite {
		f.next = reqWrite
	}
	if f.file.align.fits(f.op.Segments) {
		f.backing = append(f.backing[:0], f.op.Segments...)
		f.segments = f.backing
		return f.left == 0
	}
	f.bounce = alignedBuffer(int(f.left), max(f.file.align.mem, f.file.align.offset))
	if f.op.Kind == OpWrite {
		rest := f.bounce
		for i := range f.op.Segments {
			rest = rest[copy(rest, segmentBytes(&f.op.Segments[i])):]
		}
	}
	f.backing = append(f.backing[:0], segmentOf(f.bounce))
	f.segments = f.backing
	return false
}

func (f *fileOp) beginSync() bool {
	if f.file.syncLost.Load() {
		f.op.Status = libnvm.StatusWriteFault
		return true
	}
	f.next = reqSync
	return f.file.o.ReadOnly
}

// beginZeroes takes the best way to zeroes that the file is known to have:
// zero range, punch hole, or plain writes.
func (f *fileOp) beginZeroes() {
	switch {
	case !f.file.noZero.Load():
		f.next, f.mode = reqFallocate, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE
	case !f.file.noPunch.Load():
		f.next, f.mode = reqFallocate, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE
	default:
		f.next = reqWrite
		f.refillZeroes()
	}
}

// zeroes is what plain zero writes write, aligned for any device.
var zeroes = alignedBuffer(128<<10, 64<<10)

func (f *fileOp) refillZeroes() {
	f.backing = f.backing[:0]
	for room := f.left; room > 0 && len(f.backing) < 64; {
		n := min(room, int64(len(zeroes)))
		f.backing = append(f.backing, segmentOf(zeroes[:n]))
		room -= n
	}
	f.segments = f.backing
}

// vector is what the next request moves: as much as one system call takes.
func (f *fileOp) vector() []unix.Iovec {
	return f.segments[:min(len(f.segments), uring.MaxVectors)]
}

// maxRepeats bounds how often an operation is interrupted before it fails.
const maxRepeats = 1000

// complete takes the result of the last request: bytes moved, or an error. It
// returns true when the op is finished and its Status set; otherwise next says
// what to do.
func (f *fileOp) complete(n int, err error) bool {
	if (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)) && f.repeats < maxRepeats {
		f.repeats++
		return false // nothing was done: the same again
	}
	switch f.next {
	case reqSync:
		return f.completeSync(err)
	case reqFallocate:
		return f.completeFallocate(err)
	}
	if err != nil {
		return f.fail(err)
	}
	if n <= 0 || int64(n) > f.left {
		// The file ends early: it was truncated behind our back.
		return f.fail(errShort)
	}
	f.off += int64(n)
	f.left -= int64(n)
	f.segments = advance(f.segments, uint64(n))
	if f.left > 0 {
		// The kernel may move less than asked; every round makes progress.
		if f.op.Kind == OpWriteZeroes && len(f.segments) == 0 {
			f.refillZeroes()
		}
		return false
	}
	return f.moved()
}

// moved ends the data transfer.
func (f *fileOp) moved() bool {
	if f.op.Kind == OpRead && f.bounce != nil {
		rest := f.bounce
		for i := range f.op.Segments {
			rest = rest[copy(segmentBytes(&f.op.Segments[i]), rest):]
		}
	}
	if f.op.FUA && f.op.Kind != OpRead {
		return f.beginSync()
	}
	return true
}

func (f *fileOp) completeSync(err error) bool {
	if err != nil {
		f.file.syncLost.Store(true)
		return f.fail(err)
	}
	if f.file.syncLost.Load() {
		// Another channel's sync failed meanwhile and may have dropped our data.
		f.op.Status = libnvm.StatusWriteFault
	}
	return true
}

func (f *fileOp) completeFallocate(err error) bool {
	if err == nil {
		f.left = 0
		return f.moved()
	}
	unsupported := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
	switch {
	case errors.Is(err, unix.EINVAL): // a device refuses this alignment
		if f.op.Kind != OpDiscard {
			f.next = reqWrite
			f.refillZeroes()
		}
		return f.op.Kind == OpDiscard
	case !unsupported:
		return f.fail(err)
	}
	if f.mode&unix.FALLOC_FL_ZERO_RANGE != 0 {
		f.file.noZero.Store(true)
	} else {
		f.file.noPunch.Store(true)
	}
	if f.op.Kind == OpDiscard {
		return true
	}
	f.beginZeroes()
	return false
}

// errShort is a transfer that moved nothing though the range is inside the store.
var errShort = errors.New("soft: short transfer")

// fail sets the status that stands for err.
func (f *fileOp) fail(err error) bool {
	f.op.Status = fileStatus(f.op.Kind, err)
	f.file.hostErr.Store(&err)
	return true
}

// fileStatus maps a system error to the NVMe status that says the same.
func fileStatus(kind OpKind, err error) libnvm.Status {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	switch {
	case is(unix.ENOSPC, unix.EDQUOT, unix.EFBIG):
		return libnvm.StatusCapacityExceeded
	case is(unix.EROFS, unix.EPERM, unix.ETXTBSY):
		return libnvm.StatusWriteProtected
	case is(unix.EFAULT):
		return libnvm.StatusDataTransferError
	case is(unix.EBADF, unix.EINVAL, unix.ENODEV, unix.ENXIO, unix.ENOMEM):
		return libnvm.StatusInternalError
	case kind == OpRead:
		return libnvm.StatusUnrecoveredRead
	}
	return libnvm.StatusWriteFault
}

// reset forgets the op, so that its memory can go; capacity is kept.
func (f *fileOp) reset() {
	clear(f.backing)
	f.op, f.segments, f.bounce, f.backing = nil, nil, nil, f.backing[:0]
}
