//go:build !cgo

// Package kernelsfake runs the workloads' kernels on a software GPU, when built with
// cgo.
package kernelsfake

import "github.com/tritier/tritier/cuda/cudafake"

// Available says whether this build can run the kernels.
const Available = false

// UseLanes does nothing without cgo.
func UseLanes(int) (undo func()) { return func() {} }

// Register does nothing without cgo.
func Register(*cudafake.GPU) {}
