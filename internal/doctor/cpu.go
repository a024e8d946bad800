package doctor

import (
	"errors"
	"fmt"

	"github.com/tritier/tritier/internal/units"
)

// processors is about CPUs and NUMA nodes.
func (c *collector) processors() Section {
	s := Section{ID: "cpu", Title: "CPU", Items: []Item{c.coreItem()}}
	nodes := c.hostLimits().Nodes
	if len(nodes) == 0 {
		s.Items = append(s.Items, unknown("numa-nodes", "NUMA nodes", errors.New("sysfs does not list them")))
		return s
	}
	list := make([]map[string]any, len(nodes))
	value := count(len(nodes), "node")
	for i, n := range nodes {
		list[i] = map[string]any{"node": n.ID, "cpus": n.CPUs, "bytes": n.Total}
		if len(nodes) > 1 {
			value += fmt.Sprintf("; %d: CPUs %s, %s", n.ID, ranges(n.CPUs), units.FormatBytes(n.Total))
		}
	}
	s.Items = append(s.Items, found("numa-nodes", "NUMA nodes", value, Facts{"nodes": list}))
	return s
}

func (c *collector) coreItem() Item {
	const id, name = "cpus", "logical CPUs"
	usable, parallel := c.CPUs()
	facts := Facts{"usable": usable, "parallel": parallel}
	if parallel < usable {
		return lacking(Limited, id, name, fmt.Sprintf("%d, of which %d at once", usable, parallel), "fewer threads can serve file: and mem: drives",
			"raise the control group's CPU quota, or unset GOMAXPROCS", facts)
	}
	return found(id, name, fmt.Sprint(usable), facts)
}
