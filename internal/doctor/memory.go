package doctor

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tritier/tritier/internal/pinned"
	"github.com/tritier/tritier/internal/units"
)

// hostLimits are the machine's limits, empty when they could not be read. They are read once.
func (c *collector) hostLimits() *pinned.HostLimits {
	if c.limits == nil {
		c.limits, c.limitsErr = within(c, "the memory's limits", c.Limits)
		if c.limits == nil {
			c.limits = &pinned.HostLimits{Available: pinned.Unlimited}
		}
	}
	return c.limits
}

// memory is about what can be pinned.
func (c *collector) memory() Section {
	s := Section{ID: "memory", Title: "Pinned host memory"}
	l := c.hostLimits()
	if l.Total == 0 {
		err := c.limitsErr
		if err == nil {
			err = errors.New("/proc/meminfo does not say")
		}
		s.Items = append(s.Items, unknown("available", "memory", err))
		return s
	}
	s.Items = append(s.Items, availableItem(l), poolItem(l), cgroupItem(l), memlockItem(l), processItem(l), hugePagesItem(l))
	return s
}

func availableItem(l *pinned.HostLimits) Item {
	const id, name = "available", "memory"
	facts := Facts{"total_bytes": l.Total}
	value := units.FormatBytes(l.Total)
	if l.Available == pinned.Unlimited {
		return found(id, name, value+"; how much is free is not known", facts)
	}
	facts["available_bytes"] = l.Available
	return found(id, name, fmt.Sprintf("%s available of %s", units.FormatBytes(l.Available), value), facts)
}

// poolItem is the largest pinned pool, and what keeps it from being larger.
func poolItem(l *pinned.HostLimits) Item {
	const id, name = "largest-pool", "largest pinned pool"
	size := l.Largest(pinned.AnyNode)
	facts := Facts{"bytes": size}
	value := units.FormatBytes(size)
	if size >= 1<<60 {
		return found(id, name, "no limit is known", nil)
	}
	var limit *pinned.LimitError
	if !errors.As(l.Check(size+1, pinned.AnyNode), &limit) {
		return found(id, name, value, facts)
	}
	facts["limit"] = limit.Limit
	value += ", held by " + limit.Limit
	if limit.On != "" {
		value += " of " + limit.On
	}
	if limit.Limit == pinned.LimitMemory {
		return found(id, name, value, facts)
	}
	return lacking(Limited, id, name, value, "a host tier larger than that is refused", orElse(limit.Hint, "raise that limit"), facts)
}

func cgroupItem(l *pinned.HostLimits) Item {
	const id, name = "cgroup", "control group's limit"
	tightest, at := uint64(math.MaxUint64), -1
	for i, g := range l.Cgroups {
		if left := g.Left(); left < tightest {
			tightest, at = left, i
		}
	}
	if at < 0 {
		return found(id, name, "none", nil)
	}
	g := l.Cgroups[at]
	value := fmt.Sprintf("%s left of %s (%s of %s)", units.FormatBytes(tightest), units.FormatBytes(g.Limit), g.File, g.Path)
	facts := Facts{"limit_bytes": g.Limit, "left_bytes": tightest, "file": g.File, "group": g.Path}
	if tightest >= l.Available {
		return found(id, name, value, facts)
	}
	return lacking(Limited, id, name, value, fmt.Sprintf("pinned memory ends there, not at the %s that the machine has available", units.FormatBytes(l.Available)),
		"raise the limit of the container or job", facts)
}

// memlockItem is about the limit that VFIO and io_uring observe and the CUDA driver does not.
func memlockItem(l *pinned.HostLimits) Item {
	const id, name = "memlock", "locked memory (ulimit -l)"
	switch {
	case l.Memlock.Soft == pinned.Unlimited:
		return found(id, name, "unlimited", nil)
	case l.LockExempt:
		return found(id, name, units.FormatBytes(l.Memlock.Soft)+", from which this process is exempt (CAP_IPC_LOCK)", Facts{"bytes": l.Memlock.Soft, "exempt": true})
	}
	facts := Facts{"bytes": l.Memlock.Soft, "exempt": false}
	if l.Memlock.Soft >= l.Total {
		return found(id, name, units.FormatBytes(l.Memlock.Soft), facts)
	}
	return lacking(Limited, id, name, units.FormatBytes(l.Memlock.Soft),
		"nvme: drives can reach no more memory than that; CUDA's pinned memory is not subject to it",
		"ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, or --ulimit memlock=-1 for a container", facts)
}

// processItem is about limits that most processes do not have.
func processItem(l *pinned.HostLimits) Item {
	const id, name = "process-limits", "limits of the process"
	var has, remedies []string
	facts := Facts{}
	add := func(name, flag string, v uint64) {
		if v != pinned.Unlimited {
			has, remedies = append(has, name+" "+units.FormatBytes(v)), append(remedies, "ulimit -"+flag+" unlimited")
			facts[strings.ReplaceAll(name, " ", "_")+"_bytes"] = v
		}
	}
	add("address space", "v", l.AddressSpace.Soft)
	add("data", "d", l.Data.Soft)
	if l.Overcommit == 2 {
		has, remedies = append(has, "no overcommit"), append(remedies, "sysctl vm.overcommit_memory=0")
		facts["overcommit"] = 2
	}
	if len(has) == 0 {
		return found(id, name, "none that restricts memory", nil)
	}
	return lacking(Limited, id, name, strings.Join(has, ", "), "a pool may be refused although there is memory", strings.Join(remedies, "; "), facts)
}

func hugePagesItem(l *pinned.HostLimits) Item {
	const id, name = "huge-pages", "transparent huge pages"
	h := l.HugePages
	facts := Facts{"mode": h.Transparent}
	if h.Bytes > 0 {
		facts["bytes"] = h.Bytes
	}
	const cost = "touching and registering pinned memory takes longer: 512 small pages for each huge one"
	switch h.Transparent {
	case "always", "madvise":
		return found(id, name, h.Transparent, facts)
	case "":
		return lacking(Missing, id, name, "this kernel has none, or a sandbox hides them", cost, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE", nil)
	}
	return lacking(Limited, id, name, h.Transparent, cost, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", facts)
}
