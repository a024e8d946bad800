package uring

import "unsafe"

// The kernel's interface, include/uapi/linux/io_uring.h; sizes are checked by
// the constants at the end.

// sqe is struct io_uring_sqe.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	len      uint32
	opFlags  uint32
	userData uint64
	bufIndex uint16
	_        uint16
	_        int32
	_        [2]uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// sqOffsets is struct io_sqring_offsets.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	resv                                                                   [3]uint32
	sqOff                                                                  sqOffsets
	cqOff                                                                  cqOffsets
}

// getEventsArg is struct io_uring_getevents_arg.
type getEventsArg struct {
	sigmask   uint64
	sigmaskSz uint32
	_         uint32
	ts        uint64
}

// probe is struct io_uring_probe with room for every opcode used here.
type probe struct {
	lastOp, opsLen uint8
	_              uint16
	_              [3]uint32
	ops            [probeOps]probeOp
}

// probeOp is struct io_uring_probe_op.
type probeOp struct {
	op, _ uint8
	flags uint16
	_     uint32
}

const probeOps = 64

const (
	opReadv     = 1
	opWritev    = 2
	opFsync     = 3
	opFallocate = 17
	opRead      = 22
	opWrite     = 23

	fsyncDatasync = 1 << 0

	setupClamp        = 1 << 4
	setupTaskrunFlag  = 1 << 9
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	featSingleMmap   = 1 << 0
	featNoDrop       = 1 << 1
	featSubmitStable = 1 << 2
	featExtArg       = 1 << 8

	sqOverflow = 1 << 1
	sqTaskrun  = 1 << 2

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3

	registerProbe = 8
	probeSupports = 1 << 0

	offSQRing = 0
	offSQEs   = 0x10000000
)

// Compile-time checks: an array length that is not zero does not build.
var (
	_ [64 - unsafe.Sizeof(sqe{})]struct{}
	_ [unsafe.Sizeof(sqe{}) - 64]struct{}
	_ [16 - unsafe.Sizeof(cqe{})]struct{}
	_ [unsafe.Sizeof(cqe{}) - 16]struct{}
	_ [120 - unsafe.Sizeof(params{})]struct{}
	_ [unsafe.Sizeof(params{}) - 120]struct{}
	_ [24 - unsafe.Sizeof(getEventsArg{})]struct{}
	_ [unsafe.Sizeof(getEventsArg{}) - 24]struct{}
)
