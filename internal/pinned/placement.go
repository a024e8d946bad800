package pinned

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// Policy says how the pool's node was asked for.
type Policy string

const (
	PolicyAny        Policy = "any"         // no node was asked for, or none could be
	PolicyFirstTouch Policy = "first touch" // only by touching from the node's CPUs: the kernel refused mbind
	PolicyPreferred  Policy = "preferred"   // the node first and then others: it had too little memory available
	PolicyBound      Policy = "bound"       // the node alone; the kernel gives up caches there rather than go elsewhere
)

// NodeShare is the part of the pool that lies on a node. Node is negative for pages that are nowhere, which is an error number.
type NodeShare struct {
	Node  int
	Share float64
}

// place is where the memory shall come from and who touches it.
type place struct {
	policy  Policy
	cpus    []int // that touch; empty for any
	workers int
	note    string // why it is not what was asked for
}

// choosePlace decides without touching anything. The error is a [*NodeError]; what the node's size says of strict placement is
// [HostLimits.Check]'s business.
func choosePlace(cfg Config, l *HostLimits) (place, error) {
	p := place{policy: PolicyAny}
	if cfg.Node != AnyNode && (cfg.Node != 0 || len(l.Nodes) > 0) {
		n, err := l.Node(cfg.Node)
		switch {
		case err != nil:
			return p, err
		case !l.allows(cfg.Node) && !cfg.Strict:
			p.note = fmt.Sprintf("memory comes from any node: this process may not use that of node %d (cpuset.mems allows %v)", cfg.Node, l.AllowedNodes)
		case cfg.Strict || reserved(cfg.Size) <= n.Available():
			p.policy, p.cpus = PolicyBound, n.CPUs
		default:
			p.policy, p.cpus = PolicyPreferred, n.CPUs
			p.note = fmt.Sprintf("node %d has only %s available: the rest comes from other nodes", cfg.Node, formatBytes(n.Available()))
		}
	}
	p.cpus = usable(p.cpus, l.AllowedCPUs)
	p.workers = cfg.Workers
	if p.workers == 0 {
		p.workers = defaultWorkers(p.cpus, l.AllowedCPUs)
	}
	pieces := (cfg.Size + pieceBytes - 1) / pieceBytes
	p.workers = int(min(uint64(p.workers), pieces))
	return p, nil
}

func usable(cpus, allowed []int) []int {
	if len(allowed) == 0 {
		return cpus
	}
	return slices.DeleteFunc(slices.Clone(cpus), func(c int) bool { return !slices.Contains(allowed, c) })
}

func defaultWorkers(cpus, allowed []int) int {
	n := len(cpus)
	if n == 0 {
		n = len(allowed)
	}
	if n == 0 {
		n = runtime.NumCPU()
	}
	// GOMAXPROCS follows a control group's quota; a touching loop occupies one of its processors.
	return min(n, runtime.GOMAXPROCS(0), maxWorkers)
}

// maxSamples bounds the pages whose node is asked for.
const maxSamples = 512

// shares asks where pages spread over mem lie.
func shares(k kernel, mem []byte, page uint64) ([]NodeShare, error) {
	pages := uint64(len(mem)) / page
	n := min(pages, maxSamples)
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = pages * uint64(i) / n * page
	}
	nodes, err := k.nodesOf(mem, offsets)
	if err != nil {
		return nil, err
	}
	count := make(map[int]int)
	for _, node := range nodes {
		count[node]++
	}
	var list []NodeShare
	for _, node := range slices.Sorted(maps.Keys(count)) {
		list = append(list, NodeShare{node, float64(count[node]) / float64(len(nodes))})
	}
	return list, nil
}
