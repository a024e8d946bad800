// Package pieces moves pieces of any length between frames of GPU memory and a
// buffer: the elements of arrays, where package copyeng moves whole pages.
package pieces

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package pieces -type kernels -o kernels_gen.go -I ../../cuda/device pieces.cu
