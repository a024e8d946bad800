package doctor

import "fmt"

// sharing is about GPU memory that other devices reach.
func (c *collector) sharing() Section {
	s := Section{ID: "sharing", Title: "GPU memory for other devices"}
	if i, ok := c.peerItem(); ok {
		s.Items = append(s.Items, i)
	}
	s.Items = append(s.Items,
		c.moduleItem("nvidia-peermem", "nvidia_peermem", "RDMA network cards cannot reach GPU memory by this module; tritier has no network path",
			"modprobe nvidia-peermem (part of the driver)"),
		c.moduleItem("gdrcopy", "gdrdrv", "the CPU cannot map GPU memory: the page table and queues that both sides use live in host memory",
			"install gdrcopy and load its module: modprobe gdrdrv"))
	return s
}

// peerItem sums the matrix of pairs up.
func (c *collector) peerItem() (Item, bool) {
	const id, name = "peer-access", "peer access between GPUs"
	if c.peers == nil {
		return Item{}, false
	}
	n, can := len(c.peers.GPUs), 0
	for i, row := range c.peers.Access {
		for j, yes := range row {
			if i != j && yes {
				can++
			}
		}
	}
	all := n * (n - 1)
	facts := Facts{"pairs": all, "reachable": can}
	value := fmt.Sprintf("%d of %d directions", can, all)
	const cost, remedy = "copies between the others pass host memory", "NVLink, or GPUs below one PCIe switch or root; in a virtual machine, the host's setting of ACS"
	switch {
	case can == all:
		return found(id, name, value, facts), true
	case can == 0:
		return lacking(Missing, id, name, value, cost, remedy, facts), true
	}
	return lacking(Limited, id, name, value, cost, remedy, facts), true
}

// moduleItem looks for a kernel module. One that is built in has a folder too.
func (c *collector) moduleItem(id, module, cost, remedy string) Item {
	if !c.exists("sys/module/" + module) {
		if len(c.gpus) == 0 {
			cost, remedy = "nothing, without a GPU", "nothing is to be installed without a GPU"
		}
		return lacking(Missing, id, id, "not loaded", cost, remedy, nil)
	}
	v := c.read("sys/module/" + module + "/version")
	if v == "" {
		return found(id, id, "loaded", nil)
	}
	return found(id, id, "loaded, version "+v, Facts{"version": v})
}
