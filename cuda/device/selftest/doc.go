// Package selftest checks the device headers of cuda/device: that the PTX in
// this folder has exactly the instructions that they promise, that a GPU
// computes what it should with them, and that they mean the same on a CPU.
//
// On a machine with a CUDA toolkit, the same sources must build with nvcc:
//
//	for f in *.cu; do nvcc -std=c++17 -arch=sm_90 -I .. -c "$f" -o /dev/null || exit; done
package selftest

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package selftest -o selftest_gen.go -type kernels -I .. selftest.cu
//go:generate go run github.com/tritier/tritier/internal/ptxgen -package selftest -o variants_gen.go -type variants -arch sm_70,sm_80,sm_90 -I .. variants.cu magic.cu
