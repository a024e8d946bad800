//go:build !cgo

// Package kernelsfake runs the workloads' kernels on a software GPU, when built with
// cgo.
package kernelsfake

import "github.com/tritier/tritier/cuda/cudafake"

// Available says whether this build can run the kernels.
const Available = false

// Register does nothing without cgo.
func Register(*cudafake.GPU) {}
