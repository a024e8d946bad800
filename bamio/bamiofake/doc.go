// Package bamiofake is the queue code of bamio/device in Go, for kernels of the
// software GPU (cuda/cudafake): it works on the same structs in the same memory,
// with goroutines in the place of lanes, so that all that the host sets up is
// tested end to end without a GPU. It is for tests, and slow.
//
//	fake.RegisterKernel("my_kernel", func(l *cudafake.Launch) error {
//		d, err := bamiofake.Open(l, l.U64(0))
//		...
//		status := d.Transfer(queue, bamiofake.Read, bamiofake.Span{LBA: 7, Blocks: 1, Buffer: 3})
//	})
package bamiofake
