package copyeng

//go:generate go run github.com/tritier/tritier/internal/ptxgen -package copyeng -type kernels -o kernels_gen.go -I ../cuda/device copy.cu

// pairList is the pairs that travel in the parameters of copy_inline.
type pairList [inlinePairs]Pair

// side is one direction of an exchange, as the kernel takes it.
type side struct {
	Host, Device, List uint64
	Pages, Shift       uint32
}
