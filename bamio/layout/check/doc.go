// Package check compares Go's view of the structs of GPU-initiated I/O, package
// layout, with the device's own. It is apart from that package so that programs
// without CUDA, static ones too, can use the structs.
package check

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package check -type kernels -o check_gen.go -I ../../../cuda/device -I ../../device check.cu
