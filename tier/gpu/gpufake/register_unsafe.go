//go:build cgo

// Package gpufake runs the kernels of package gpu on a software GPU: the device's
// own C++ code, built for the CPU. It needs cgo and a C++17 compiler.
package gpufake

/*
#cgo CXXFLAGS: -std=c++17 -O2 -pthread -I${SRCDIR}/../../device -I${SRCDIR}/../../../bamio/device -I${SRCDIR}/../../../cuda/device
#cgo LDFLAGS: -lstdc++ -lpthread
#include <stdint.h>
int gpufake_by_index(const void* ref, uint32_t warps, uint32_t op, const uint64_t* index, uint64_t n, char* buffer, void* report);
int gpufake_in_run(const void* ref, uint32_t warps, uint32_t op, uint64_t first, uint64_t n, char* buffer, void* report);
int gpufake_pin(const void* engine, uint32_t warps, const uint64_t* pages, uint64_t n, uint32_t* frames, uint32_t unpin, void* report);
int gpufake_flush(const void* engine, uint32_t warps, void* report);
int gpufake_clock(uint64_t* out);
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/tritier/tritier/cuda/cudafake"
)

// mostThreads bounds the CPU threads of a kernel, one for each warp.
const mostThreads = 3

// Available says whether this build can run the kernels.
const Available = true

// Register makes the fake run the kernels.
func Register(g *cudafake.GPU) {
	g.RegisterKernel("access_by_index", func(l *cudafake.Launch) error {
		return result(C.gpufake_by_index(ref(l), threads(l), C.uint32_t(l.U32(64)), (*C.uint64_t)(at(l.U64(72))), C.uint64_t(l.U64(80)), (*C.char)(at(l.U64(88))), at(l.U64(96))))
	})
	g.RegisterKernel("access_in_run", func(l *cudafake.Launch) error {
		return result(C.gpufake_in_run(ref(l), threads(l), C.uint32_t(l.U32(64)), C.uint64_t(l.U64(72)), C.uint64_t(l.U64(80)), (*C.char)(at(l.U64(88))), at(l.U64(96))))
	})
	g.RegisterKernel("pin_pages", func(l *cudafake.Launch) error {
		return result(C.gpufake_pin(at(l.U64(0)), threads(l), (*C.uint64_t)(at(l.U64(8))), C.uint64_t(l.U64(16)), (*C.uint32_t)(at(l.U64(24))), C.uint32_t(l.U32(32)), at(l.U64(40))))
	})
	g.RegisterKernel("read_clock", func(l *cudafake.Launch) error { return result(C.gpufake_clock((*C.uint64_t)(at(l.U64(0))))) })
	g.RegisterKernel("flush_dirty", func(l *cudafake.Launch) error {
		return result(C.gpufake_flush(at(l.U64(0)), threads(l), at(l.U64(8))))
	})
}

// threads is as many as the launch has warps, but few.
func threads(l *cudafake.Launch) C.uint32_t {
	return C.uint32_t(min(int(l.Grid[0])*int(l.Block[0])/32, mostThreads))
}

// ref is the array in the parameters, which C must not keep.
func ref(l *cudafake.Launch) unsafe.Pointer { return unsafe.Pointer(&l.Params[0]) }

// at is an address of the software GPU, whose memory is this process's, outside of
// Go's heap.
func at(addr uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

func result(code C.int) error {
	if code != 0 {
		return errors.New("no threads for the kernel")
	}
	return nil
}
