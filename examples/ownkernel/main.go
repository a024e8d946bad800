// Ownkernel runs a kernel of its own over an array that is larger than the GPU memory
// it may use: the kernel fetches, evicts and reads the drives by itself.
//
// The kernel is compiled by go generate with clang 19. With a CUDA toolkit instead:
//
//	tritier headers include
//	nvcc -std=c++17 -arch=sm_90 -I include -ptx -o histogram.ptx histogram.cu
//	go run ./examples/ownkernel histogram.ptx
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
)

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package main -type kernels -o kernels_gen.go -I ../../cuda/device -I ../../bamio/device -I ../../tier/device histogram.cu

const length = 256 << 20 // bytes, sixteen times T1

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ownkernel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	mem, err := tritier.Open(ctx, tritier.Config{Store: "mem:300MiB", T1: 16 << 20, T2: 64 << 20, Engine: tritier.EngineGPU})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Close(ctx)) }()
	values, err := tritier.NewArray[uint8](ctx, mem, "values", length)
	if err != nil {
		return err
	}
	if err := fill(ctx, values); err != nil {
		return err
	}
	bins, err := count(ctx, mem, values, args)
	if err != nil {
		return err
	}
	for v, n := range bins {
		if n != length/256 {
			return fmt.Errorf("value %d was counted %d times, not %d", v, n, length/256)
		}
	}
	c := mem.Stats().Counters
	fmt.Printf("%d bytes counted: %d page accesses, %d found in GPU memory, %d in host memory, %d read from the drive\n",
		length, c.Accesses, c.T1Hits, c.T2Hits, c.T3Fetches)
	return nil
}

// fill gives every value equally often.
func fill(ctx context.Context, a *tritier.Array[uint8]) error {
	part := make([]uint8, 1<<20)
	for i := range part {
		part[i] = uint8(i)
	}
	for at := uint64(0); at < a.Len(); at += uint64(len(part)) {
		if err := a.Write(ctx, at, part); err != nil {
			return err
		}
	}
	return nil
}

// count launches the kernel, the one of a file if args name one, and waits for it.
func count(ctx context.Context, mem *tritier.Memory, a *tritier.Array[uint8], args []string) (bins [256]uint64, err error) {
	d, err := cuda.Open()
	if err != nil {
		return bins, err
	}
	dev, err := d.Device("0")
	if err != nil {
		return bins, err
	}
	gpu, err := dev.Retain() // the context that the Memory uses too
	if err != nil {
		return bins, err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	kernel, unload, err := histogram(gpu, args)
	if err != nil {
		return bins, err
	}
	defer func() { err = errors.Join(err, unload()) }()
	s, err := gpu.NewStream()
	if err != nil {
		return bins, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out, err := gpu.Alloc(257 * 8)
	if err != nil {
		return bins, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	ref, err := a.Ref()
	if err != nil {
		return bins, err
	}
	result := make([]byte, 257*8)
	shape := cuda.LaunchConfig{Grid: cuda.D1(64), Block: cuda.D1(256)}
	if err := errors.Join(s.Memset8(out.Ptr(), 0, 257*8), kernel.LaunchArgs(s, shape, ref, out.Ptr(), out.Ptr().Add(256*8)),
		mem.Watch(ctx, s), s.CopyToHost(result, out.Ptr()), s.Wait(ctx)); err != nil {
		return bins, err
	}
	if failed := binary.LittleEndian.Uint32(result[256*8:]); failed > 0 {
		return bins, fmt.Errorf("%d elements could not be read", failed)
	}
	_, err = binary.Decode(result[:256*8], binary.LittleEndian, &bins)
	return bins, err
}

// histogram is the kernel and what unloads it.
func histogram(gpu *cuda.Context, args []string) (*cuda.Function, func() error, error) {
	if len(args) == 0 {
		k, err := loadKernels(gpu)
		if err != nil {
			return nil, nil, err
		}
		return k.HistogramFunction(), k.Close, nil
	}
	ptx, err := os.ReadFile(args[0])
	if err != nil {
		return nil, nil, err
	}
	m, err := gpu.LoadModule(ptx)
	if err != nil {
		return nil, nil, err
	}
	f, err := m.Function("histogram")
	return f, m.Close, err
}
