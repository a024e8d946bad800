package iobench

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package iobench -type kernels -o kernels_gen.go -I ../../cuda/device -I ../device iobench.cu

// load is what the kernel is told to do. iobench.cu describes the fields.
type load struct {
	Target, Results, Histogram, SMs uint64
	Blocks, Turns, Seed, Data       uint64
	Warps, Span, ReadShare, Pattern uint32
	Lanes, Pull                     uint32
	_                               [2]uint32
}
