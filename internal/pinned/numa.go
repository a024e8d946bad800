package pinned

import (
	"fmt"
	"slices"
)

// Node is a NUMA node.
type Node struct {
	ID          int
	CPUs        []int
	Total, Free uint64 // bytes
	Reclaimable uint64 // bytes of caches that the kernel gives up when memory is asked for
}

// Available estimates the bytes that a program can get from the node.
func (n Node) Available() uint64 { return n.Free + n.Reclaimable }

func (t *tree) nodes() []Node {
	const dir = "sys/devices/system/node/"
	var nodes []Node
	for _, id := range t.list(dir + "online") {
		sub := fmt.Sprintf("%snode%d/", dir, id)
		m := t.table(sub + "meminfo")
		nodes = append(nodes, Node{
			ID: id, CPUs: t.list(sub + "cpulist"), Total: m["MemTotal"], Free: m["MemFree"],
			// Half of the slabs, as the kernel itself estimates: some of them stay in use.
			Reclaimable: m["Active(file)"] + m["Inactive(file)"] + m["SReclaimable"]/2,
		})
	}
	return nodes
}

// Node returns the node of that number.
func (l *HostLimits) Node(id int) (Node, error) {
	for _, n := range l.Nodes {
		if n.ID == id {
			return n, nil
		}
	}
	var have []int
	for _, n := range l.Nodes {
		have = append(have, n.ID)
	}
	return Node{}, &NodeError{id, have}
}

// allows says whether the process may take memory from the node.
func (l *HostLimits) allows(node int) bool {
	return len(l.AllowedNodes) == 0 || slices.Contains(l.AllowedNodes, node)
}
