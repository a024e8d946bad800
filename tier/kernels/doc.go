// Package kernels has kernels over arrays in tiered memory, compiled: the flush
// of everything that a host launches, and small ones that between them use every
// function of tier/device's headers.
package kernels

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package kernels -type Kernels -o kernels_gen.go -I ../../cuda/device -I ../../bamio/device -I ../device every.cu
