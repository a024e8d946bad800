// Package devicetest checks the device side of bamio: the queue code of
// bamio/device, which GPUs, nvcc and g++ share.
//
// Its tests build that code with g++ and run it against an adversarial
// controller in the same process, with and without sanitizers (rig/), break it
// on purpose and expect the rig to notice, and run it as a foreign process
// against the software controller of libnvm. The kernels here are there to be
// compiled for GPUs.
package devicetest

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package devicetest -type kernels -o every_gen.go -I ../../cuda/device -I ../device every.cu
