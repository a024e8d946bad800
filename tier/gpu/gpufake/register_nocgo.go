//go:build !cgo

// Package gpufake runs the kernels of package gpu on a software GPU, when built
// with cgo.
package gpufake

import "github.com/tritier/tritier/cuda/cudafake"

// Available says whether this build can run the kernels.
const Available = false

// Register does nothing without cgo.
func Register(*cudafake.GPU) {}
