package gpuinfo

// library is NVML, loaded and initialised. Its methods, and those of its GPUs, may be called from any goroutine until close. Errors are
// [*UnavailableError].
type library interface {
	gpu(address string) (gpu, error)
	driverVersion() (string, error)
	close() error
}

// gpu is a device as NVML answers for it.
type gpu interface {
	uuid() (string, error)
	currentLink() (Link, error)
	maxLink() (Link, error)
	ownGeneration() (int, error)
	replays() (uint64, error)
	utilisation() (Utilisation, error)
	memory() (Memory, error)
	bar1() (Memory, error)
	temperature() (int, error)
	ecc() (ECC, error)
	throughput() (Throughput, error)
	// nodes and cpus are the nearest NUMA nodes of the host, and the CPUs on them.
	nodes() ([]int, error)
	cpus() ([]int, error)
}

// ask fills in everything that NVML knows.
func ask(g gpu) Info {
	var i Info
	fill(&i.UUID, g.uuid)
	fill(&i.Current, g.currentLink)
	fill(&i.Max, g.maxLink)
	fill(&i.OwnGeneration, g.ownGeneration)
	fill(&i.Replays, g.replays)
	fill(&i.Utilisation, g.utilisation)
	fill(&i.Memory, g.memory)
	fill(&i.BAR1, g.bar1)
	fill(&i.Temperature, g.temperature)
	fill(&i.ECC, g.ecc)
	fill(&i.CPUs, g.cpus)
	fill(&i.NUMANode, func() (int, error) { return single(g.nodes()) })
	i.Regions = Figure[[]Region]{Err: &UnavailableError{What: "the list of address registers in NVML", Reason: NotReported}}
	return i
}

func fill[T any](f *Figure[T], read func() (T, error)) {
	v, err := read()
	*f = figure(v, err, NVML)
}

// single is the only element: of several nodes that are equally near, none is the GPU's.
func single(nodes []int, err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case len(nodes) != 1:
		return 0, &UnavailableError{What: "a NUMA node nearest to the GPU", Reason: NotReported, Detail: "NVML names " + plural(len(nodes), "node")}
	}
	return nodes[0], nil
}

// nothing is what is known when NVML does not answer at all.
func nothing(err error) Info {
	return Info{
		UUID: Figure[string]{Err: err}, Current: Figure[Link]{Err: err}, Max: Figure[Link]{Err: err},
		OwnGeneration: Figure[int]{Err: err}, Replays: Figure[uint64]{Err: err}, Utilisation: Figure[Utilisation]{Err: err},
		Memory: Figure[Memory]{Err: err}, Temperature: Figure[int]{Err: err}, ECC: Figure[ECC]{Err: err},
		BAR1: Figure[Memory]{Err: err}, Regions: Figure[[]Region]{Err: err}, NUMANode: Figure[int]{Err: err}, CPUs: Figure[[]int]{Err: err},
	}
}
