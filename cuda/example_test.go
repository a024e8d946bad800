package cuda_test

import (
	"context"
	_ "embed"
	"fmt"
	"time"
	"unsafe"

	"github.com/tritier/tritier/cuda"
)

// PTX of kernels such as
//
//	extern "C" __global__ void scale_add(float *p, unsigned n, float a)
//
//go:embed testdata/kernels.ptx
var ptx []byte

// A program loads a kernel of its own and runs it on an array. It needs a GPU,
// so it is compiled and not run where the tests are.
func Example() {
	if err := scaleOnGPU([]float32{1, 2, 3}, 2); err != nil {
		fmt.Println(err)
	}
}

func scaleOnGPU(values []float32, a float32) error {
	driver, err := cuda.Open()
	if err != nil {
		return err // says which library is missing, or that there is no GPU
	}
	gpu, err := driver.Device("0")
	if err != nil {
		return err
	}
	ctx, err := gpu.Retain()
	if err != nil {
		return err
	}
	defer ctx.Close() // frees what is made below

	module, err := ctx.LoadModule(ptx)
	if err != nil {
		return fmt.Errorf("%+v", err) // with the compiler's log
	}
	kernel, err := module.Function("scale_add")
	if err != nil {
		return err
	}
	stream, err := ctx.NewStream()
	if err != nil {
		return err
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
	memory, err := ctx.Alloc(uint64(len(bytes)))
	if err != nil {
		return err
	}
	if err := stream.CopyToDevice(memory.Ptr(), bytes); err != nil {
		return err
	}
	n := uint32(len(values))
	shape := cuda.LaunchConfig{Grid: cuda.D1((n + 255) / 256), Block: cuda.D1(256)}
	if err := kernel.LaunchArgs(stream, shape, memory, n, a); err != nil {
		return err
	}
	if err := stream.CopyToHost(bytes, memory.Ptr()); err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := stream.Wait(deadline); err != nil {
		return err // also what the kernel did wrong
	}
	fmt.Println(values)
	return nil
}
