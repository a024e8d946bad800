package pinned

import (
	"errors"
	"io/fs"
	"math/bits"
	"runtime"
	"strconv"
	"strings"
)

// Rlimit is a resource limit of the process in bytes; Unlimited where there is none.
type Rlimit struct{ Soft, Hard uint64 }

// HugePageSettings are the machine's settings of huge pages.
type HugePageSettings struct {
	Transparent string // "always", "madvise" or "never"; "" where the kernel has none
	Defrag      string // how hard the kernel works for one at a fault: "always", "defer", "defer+madvise", "madvise" or "never"
	Bytes       uint64 // size of a transparent huge page, 0 where unknown
}

// HostLimits is all that can limit pinned memory on this machine, at one moment. What is not known is Unlimited, 0 or empty.
type HostLimits struct {
	Memlock, AddressSpace, Data Rlimit
	VirtualSize, DataSize       uint64 // bytes that the process has of the latter two
	LockExempt                  bool   // CAP_IPC_LOCK: Memlock does not apply

	Total, Available       uint64 // bytes of physical memory
	Overcommit             uint64 // vm.overcommit_memory: 2 means that CommitLimit holds
	CommitLimit, Committed uint64 // bytes
	Maps, MaxMaps          uint64 // mappings of the process, and vm.max_map_count
	Cgroups                []Cgroup
	Nodes                  []Node
	AllowedNodes           []int // nodes and CPUs that the process may use; empty where unknown
	AllowedCPUs            []int
	HugePages              HugePageSettings
}

// Limits reads this machine's limits. An error says what could not be read; the rest is valid all the same. On systems other than Linux
// the error is ErrUnsupported.
func Limits() (*HostLimits, error) {
	l, err := LimitsOf(machineRoot())
	if runtime.GOOS != "linux" {
		err = errors.Join(ErrUnsupported, err)
	}
	return l, err
}

// LimitsOf is [Limits] over a tree that holds "proc" and "sys".
func LimitsOf(root fs.FS) (*HostLimits, error) {
	t := &tree{fsys: root}
	l := &HostLimits{Cgroups: t.cgroups(), Nodes: t.nodes()}
	t.memory(l)
	t.process(l)
	t.settings(l)
	return l, errors.Join(t.errs...)
}

// memory reads what changes from moment to moment, the usage of known control groups included; [Open] repeats it while it touches.
func (t *tree) memory(l *HostLimits) {
	m := t.table("proc/meminfo")
	known := func(key string) uint64 {
		if n, ok := m[key]; ok {
			return n
		}
		return Unlimited
	}
	l.Total, l.Available, l.CommitLimit, l.Committed = m["MemTotal"], known("MemAvailable"), known("CommitLimit"), m["Committed_AS"]
	for i, c := range l.Cgroups {
		l.Cgroups[i] = t.usage(c)
	}
}

// process reads the limits of the process itself.
func (t *tree) process(l *HostLimits) {
	limits, _ := t.text("proc/self/limits")
	l.Memlock, l.AddressSpace, l.Data = rlimit(limits, "Max locked memory"), rlimit(limits, "Max address space"), rlimit(limits, "Max data size")
	status := t.table("proc/self/status")
	l.VirtualSize, l.DataSize = status["VmSize"], status["VmData"]
	text, _ := t.text("proc/self/status")
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		// A line that cannot be parsed leaves the value unknown, which restricts nothing.
		switch key {
		case "Cpus_allowed_list":
			l.AllowedCPUs, _ = parseList(value)
		case "Mems_allowed_list":
			l.AllowedNodes, _ = parseList(value)
		case "CapEff":
			const ipcLock = 14
			caps, err := strconv.ParseUint(value, 16, 64)
			l.LockExempt = err == nil && caps&(1<<ipcLock) != 0
		}
	}
	l.Maps = t.lines("proc/self/maps")
}

func (t *tree) settings(l *HostLimits) {
	l.MaxMaps = t.number("proc/sys/vm/max_map_count")
	if n := t.number("proc/sys/vm/overcommit_memory"); n != Unlimited {
		l.Overcommit = n
	}
	const thp = "sys/kernel/mm/transparent_hugepage/"
	l.HugePages.Transparent, l.HugePages.Defrag = t.chosen(thp+"enabled"), t.chosen(thp+"defrag")
	// What is no power of two is no page size.
	if n := t.number(thp + "hpage_pmd_size"); n != Unlimited && bits.OnesCount64(n) == 1 {
		l.HugePages.Bytes = n
	}
}

// rlimit finds a line of proc's limits: name, soft limit, hard limit, unit, in columns.
func rlimit(text, name string) Rlimit {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		f := strings.Fields(rest)
		if !ok || len(f) < 2 {
			continue
		}
		value := func(s string) uint64 {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return Unlimited // "unlimited"
			}
			return n
		}
		return Rlimit{value(f[0]), value(f[1])}
	}
	return Rlimit{Unlimited, Unlimited}
}
