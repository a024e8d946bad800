//go:build cgo

// Package kernelsfake runs the workloads' kernels on a software GPU: the device's own
// C++ code, built for the CPU. It needs cgo and a C++17 compiler.
package kernelsfake

/*
#cgo CXXFLAGS: -std=c++20 -O2 -pthread -I${SRCDIR}/.. -I${SRCDIR}/../../../tier/device -I${SRCDIR}/../../../bamio/device -I${SRCDIR}/../../../cuda/device
#cgo LDFLAGS: -lstdc++ -lpthread
#include <stdint.h>
const char* kernelsfake_name(uint32_t i);
int kernelsfake_run(uint32_t i, uint32_t warps, uint32_t lanes, const void* params);
*/
import "C"

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/tritier/tritier/cuda/cudafake"
)

// mostThreads bounds the CPU threads of a kernel, one for each warp.
const mostThreads = 3

// Available says whether this build can run the kernels.
const Available = true

var lanes atomic.Int32

// UseLanes makes each warp of the launches to come so many lanes, from 1 to 32, each a
// CPU thread, so that votes and shuffles are those of the device: much slower than the
// one lane that a warp has without. The function that it returns undoes that.
func UseLanes(n int) (undo func()) {
	was := lanes.Swap(int32(n))
	return func() { lanes.Store(was) }
}

// Register makes the fake run the kernels.
func Register(g *cudafake.GPU) {
	for i := C.uint32_t(0); ; i++ {
		name := C.kernelsfake_name(i)
		if name == nil {
			return
		}
		g.RegisterKernel(C.GoString(name), func(l *cudafake.Launch) error {
			warps := min(l.Threads()/32, mostThreads)
			// The parameters, which C must not keep.
			if C.kernelsfake_run(i, C.uint32_t(warps), C.uint32_t(max(lanes.Load(), 1)), unsafe.Pointer(&l.Params[0])) != 0 {
				return errors.New("no threads for the kernel")
			}
			return nil
		})
	}
}
