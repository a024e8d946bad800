package uring

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queues is the memory that ring and kernel share. All pointers lead into the
// two mappings.
type queues struct {
	fd      int
	ring    []byte // both rings: IORING_FEAT_SINGLE_MMAP
	sqesMem []byte

	sqHead, sqTail *uint32
	sqFlags        *uint32 // what the kernel asks for
	cqHead, cqTail *uint32
	sqMask, cqMask uint32
	sqes           []sqe
	cqes           []cqe
}

// setup creates the kernel's side and maps it.
func setup(entries, flags uint32) (*queues, error) {
	p := params{flags: flags}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, setupError(errno)
	}
	q := &queues{fd: int(fd)}
	if err := q.mapRings(&p); err != nil {
		return nil, fmt.Errorf("%w%s", err, closeNote(q.close()))
	}
	return q, nil
}

// closeNote words a second failure for the message of the first.
func closeNote(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (and closing the ring failed: %v)", err)
}

const neededFeatures = featSingleMmap | featNoDrop | featSubmitStable | featExtArg

func (q *queues) mapRings(p *params) error {
	if p.features&neededFeatures != neededFeatures {
		return &UnsupportedError{Reason: fmt.Sprintf("this kernel's io_uring is too old (features %#x, need %#x: Linux 5.11)", p.features, neededFeatures)}
	}
	sqBytes := p.sqOff.array + p.sqEntries*4
	cqBytes := p.cqOff.cqes + p.cqEntries*uint32(unsafe.Sizeof(cqe{}))
	var err error
	if q.ring, err = mapShared(q.fd, offSQRing, int(max(sqBytes, cqBytes))); err != nil {
		return err
	}
	if q.sqesMem, err = mapShared(q.fd, offSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{}))); err != nil {
		return err
	}
	base := unsafe.Pointer(unsafe.SliceData(q.ring))
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Add(base, off)) }
	q.sqHead, q.sqTail = word(p.sqOff.head), word(p.sqOff.tail)
	q.sqFlags = word(p.sqOff.flags)
	q.cqHead, q.cqTail = word(p.cqOff.head), word(p.cqOff.tail)
	q.sqMask, q.cqMask = *word(p.sqOff.ringMask), *word(p.cqOff.ringMask)
	q.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(unsafe.SliceData(q.sqesMem))), p.sqEntries)
	q.cqes = unsafe.Slice((*cqe)(unsafe.Add(base, p.cqOff.cqes)), p.cqEntries)
	// Entry i of the index array always names SQE i, so it is filled once.
	array := unsafe.Slice(word(p.sqOff.array), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return nil
}

func mapShared(fd int, off int64, size int) ([]byte, error) {
	b, err := unix.Mmap(fd, off, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("uring: map %d bytes of the rings: %w", size, err)
	}
	return b, nil
}

func (q *queues) close() error {
	var first error
	for _, m := range [][]byte{q.sqesMem, q.ring} {
		if m == nil {
			continue
		}
		if err := unix.Munmap(m); err != nil && first == nil {
			first = fmt.Errorf("uring: unmap the rings: %w", err)
		}
	}
	q.sqesMem, q.ring, q.sqes, q.cqes = nil, nil, nil, nil
	if err := unix.Close(q.fd); err != nil && first == nil {
		first = fmt.Errorf("uring: close: %w", err)
	}
	return first
}

// enter submits n entries and waits up to timeout for min completions; with min
// zero it only runs what the kernel has to finish in our context.
func (q *queues) enter(n, min uint32, timeout time.Duration) (int, syscall.Errno) {
	if n == 0 && min == 0 {
		// It neither blocks nor starts I/O, so the runtime need not hear of it.
		done, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(q.fd), 0, 0, enterGetEvents, 0, 0)
		return taken(done, errno)
	}
	if min == 0 {
		done, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(q.fd), uintptr(n), 0, enterGetEvents, 0, 0)
		return taken(done, errno)
	}
	ts := unix.NsecToTimespec(int64(timeout))
	arg := getEventsArg{ts: uint64(uintptr(unsafe.Pointer(&ts)))}
	done, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(q.fd), uintptr(n), uintptr(min),
		enterGetEvents|enterExtArg, uintptr(unsafe.Pointer(&arg)), unsafe.Sizeof(arg))
	runtime.KeepAlive(&ts)
	return taken(done, errno)
}

// taken is the number of entries that the kernel took: none when it failed.
func taken(done uintptr, errno syscall.Errno) (int, syscall.Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(done), 0
}

// probeOpcodes reports an *UnsupportedError when the kernel lacks an operation.
func (q *queues) probeOpcodes() error {
	var p probe
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(q.fd), registerProbe, uintptr(unsafe.Pointer(&p)), probeOps, 0, 0)
	if errno != 0 {
		return &UnsupportedError{"the kernel cannot say which operations it has", errno}
	}
	for _, op := range []uint8{opRead, opWrite, opReadv, opWritev, opFsync, opFallocate} {
		if op > p.lastOp || p.ops[op].flags&probeSupports == 0 {
			return &UnsupportedError{Reason: fmt.Sprintf("the kernel lacks operation %d", op)}
		}
	}
	return nil
}

// address is a buffer's address for an SQE.
func address(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }

// vectorAddress is an iovec array's address for an SQE.
func vectorAddress(v []unix.Iovec) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(v))))
}

// free reports the room in the submission ring: the kernel's head is acquired.
func (q *queues) free(tail uint32) uint32 {
	return uint32(len(q.sqes)) - (tail - atomic.LoadUint32(q.sqHead))
}
