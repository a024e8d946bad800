// Package check compares Go's view of the structs of the GPU-orchestrated engine,
// package layout, with the device's own. It is apart from that package so that
// programs without CUDA can use the structs.
package check

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package check -type kernels -o check_gen.go -I ../../../cuda/device -I ../../device check.cu
