package pinned

// kernel is what the pool asks of the operating system. A test stands between to refuse calls as old kernels and containers do.
type kernel interface {
	// reserve maps size bytes of zeroed private memory at a multiple of align. size is a multiple of the page size.
	reserve(size, align uint64) ([]byte, error)
	// release unmaps all or part of what reserve has mapped.
	release(mem []byte) error
	// blank gives the memory back but keeps its addresses from being used again.
	blank(mem []byte) error
	// huge asks for transparent huge pages, or for none.
	huge(mem []byte, on bool) error
	// dontFork keeps the memory out of child processes.
	dontFork(mem []byte) error
	// bind sets the memory's NUMA policy.
	bind(mem []byte, policy Policy, node int) error
	// populate touches every page for writing, in the kernel.
	populate(mem []byte) error
	// nodesOf tells which node holds the page at each offset, or a negative number where there is none.
	nodesOf(mem []byte, offsets []uint64) ([]int, error)
	// pin restricts the calling thread, to which the goroutine is locked, to those of the CPUs that it may use anyway.
	pin(cpus []int) (restore func() error, err error)
}
