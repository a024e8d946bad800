//go:build !linux

package pinned

import (
	"io/fs"
	"unsafe"
)

// heap takes memory from Go's heap, which neither moves nor swaps more than any other memory: enough for an engine without a GPU.
type heap struct{}

func machineKernel() kernel { return heap{} }

// machineRoot is empty: there is no proc and no sys, and so no limit to compare with.
func machineRoot() fs.FS { return emptyFS{} }

type emptyFS struct{}

func (emptyFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

func (heap) reserve(size, align uint64) ([]byte, error) {
	all := make([]byte, size+align)
	head := -address(all) & (align - 1)
	return all[head : head+size : head+size], nil
}

func (heap) release([]byte) error                        { return nil }
func (heap) blank([]byte) error                          { return nil }
func (heap) huge([]byte, bool) error                     { return ErrUnsupported }
func (heap) dontFork([]byte) error                       { return nil }
func (heap) bind([]byte, Policy, int) error              { return ErrUnsupported }
func (heap) populate([]byte) error                       { return ErrUnsupported }
func (heap) nodesOf([]byte, []uint64) ([]int, error)     { return nil, ErrUnsupported }
func (heap) pin([]int) (restore func() error, err error) { return nil, ErrUnsupported }
func unsupported(error) bool                             { return true }
func interrupted(error) bool                             { return false }
