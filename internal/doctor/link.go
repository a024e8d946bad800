package doctor

import (
	"fmt"

	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/units"
)

// linkItem compares the link with what it could be.
func linkItem(i gpuinfo.Info) Item {
	const id, name = "link", "PCIe link"
	if !i.Current.Known() {
		return unknown(id, name, firstReason(i.Current.Err))
	}
	now := i.Current.Value
	facts := Facts{"generation": now.Generation, "width": now.Width, "wire_bytes_per_second": uint64(now.BytesPerSecond())}
	value := fmt.Sprintf("%v, %s", now, rate(now))
	item := sourced(found(id, name, value, facts), i.Current.Source)
	if !i.Max.Known() {
		item.Value += "; what it could be is not known"
		return item
	}
	most := i.Max.Value
	facts["max_generation"], facts["max_width"], facts["max_source"] = most.Generation, most.Width, string(i.Max.Source)
	if i.OwnGeneration.Known() {
		facts["gpu_generation"] = i.OwnGeneration.Value
	}
	limit := func(what, cost, remedy string) {
		item.Status, item.Value, item.Cost, item.Remedy = Limited, value+"; "+what, cost, remedy
	}
	slower := fmt.Sprintf("copies reach at most %s of %s", rate(now), rate(most))
	switch {
	case now.Width < most.Width:
		limit(fmt.Sprintf("could be %v", most), slower, "reseat the GPU, clean its contacts, and see how the firmware splits the lanes of its slot")
	case now.Generation < most.Generation:
		limit(fmt.Sprintf("could be %v", most), slower+", if it stays so", "an idle GPU lowers its link by itself: look again while it copies; if it stays, see the firmware's setting of the slot")
	case i.OwnGeneration.Known() && most.Generation < i.OwnGeneration.Value:
		better := gpuinfo.Link{Generation: i.OwnGeneration.Value, Width: most.Width}
		limit(fmt.Sprintf("the GPU itself is Gen%d", i.OwnGeneration.Value), fmt.Sprintf("copies reach at most %s of %s", rate(now), rate(better)),
			fmt.Sprintf("a slot of PCIe Gen%d, or the firmware's setting of this one", i.OwnGeneration.Value))
	}
	return item
}

// rate is what a link's wire carries each way.
func rate(l gpuinfo.Link) string {
	return fmt.Sprintf("%.1f GB/s each way on the wire", l.BytesPerSecond()/1e9)
}

// bar1Item compares the aperture with the memory behind it.
func bar1Item(g *gpu) Item {
	const id, name = "bar1", "aperture to its memory (BAR1)"
	b := g.info.BAR1
	if !b.Known() {
		return unknown(id, name, firstReason(b.Err))
	}
	facts := Facts{"bytes": b.Value.Total}
	value := units.FormatBytes(b.Value.Total)
	// Apertures are powers of two, and the driver keeps some memory: one that shows nearly all of it shows all that can be used.
	if b.Value.Total >= g.memory/100*95 {
		return sourced(found(id, name, value+", all of it", facts), b.Source)
	}
	return sourced(lacking(Limited, id, name, value+" of "+units.FormatBytes(g.memory),
		"other devices and the CPU reach a part of the GPU's memory only; copies by the GPU are as fast",
		"turn on Resizable BAR and Above 4G Decoding in the firmware, where the GPU has it", facts), b.Source)
}

// numaItem says which node's memory is nearest.
func (c *collector) numaItem(i gpuinfo.Info) Item {
	const id, name = "numa", "NUMA node"
	nodes := len(c.hostLimits().Nodes)
	if !i.NUMANode.Known() {
		if nodes == 1 {
			return found(id, name, "node 0, the only one", Facts{"node": 0})
		}
		return unknown(id, name, firstReason(i.NUMANode.Err))
	}
	value := fmt.Sprintf("node %d", i.NUMANode.Value)
	facts := Facts{"node": i.NUMANode.Value}
	if i.CPUs.Known() {
		value += ", CPUs " + ranges(i.CPUs.Value)
		facts["cpus"], facts["cpus_source"] = i.CPUs.Value, string(i.CPUs.Source)
	}
	return sourced(found(id, name, value, facts), i.NUMANode.Source)
}

// ranges writes ascending numbers as "0-3,8".
func ranges(list []int) string {
	s := ""
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if s != "" {
			s += ","
		}
		s += fmt.Sprint(list[i])
		if j > i {
			s += fmt.Sprintf("-%d", list[j])
		}
		i = j + 1
	}
	return s
}
