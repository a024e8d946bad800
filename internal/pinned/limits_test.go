package pinned

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseList(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []int
		ok   bool
	}{
		{"0", []int{0}, true},
		{"0-3\n", []int{0, 1, 2, 3}, true},
		{"0-1,8,10-11", []int{0, 1, 8, 10, 11}, true},
		{"", nil, true},
		{"\n", nil, true},
		{"3-1", nil, false},
		{"a", nil, false},
		{"1,", nil, false},
		{"-1", nil, false},
		{"0-", nil, false},
		{"0-99999999", nil, false},
	} {
		got, err := parseList(c.in)
		if !slices.Equal(got, c.want) || (err == nil) != c.ok {
			t.Errorf("parseList(%q) = %v, %v, want %v, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}

func TestLimitsOf(t *testing.T) {
	l, err := LimitsOf(plenty().with(
		"proc/self/limits", "Max locked memory         8388608              9000000              bytes     \nMax address space         unlimited 1099511627776 bytes\nMax data size             5 6 bytes\n",
		"proc/self/status", "VmSize:\t  1000 kB\nVmData:\t  500 kB\nCapEff:\t0000000000004000\nCpus_allowed_list:\t0,2\nMems_allowed_list:\t1\n",
	).fs())
	if err != nil {
		t.Fatal(err)
	}
	want := &HostLimits{
		Memlock: Rlimit{8388608, 9000000}, AddressSpace: Rlimit{Unlimited, 1 << 40}, Data: Rlimit{5, 6},
		VirtualSize: 1000 * kib, DataSize: 500 * kib, LockExempt: true,
		Total: 1 << 40, Available: 1000000000 * kib, CommitLimit: 500000000 * kib, Committed: 1000 * kib,
		Maps: 3, MaxMaps: 65530,
		Nodes: []Node{
			{0, []int{0, 1, 2, 3}, 536870912 * kib, 500000000 * kib, 10000 * kib},
			{1, []int{4, 5, 6, 7}, 536870912 * kib, 500000000 * kib, 10000 * kib},
		},
		AllowedNodes: []int{1}, AllowedCPUs: []int{0, 2},
		HugePages: HugePageSettings{"madvise", "madvise", 2 * mib},
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Error(d)
	}
}

// What is not there limits nothing, and what is there but damaged is reported.
func TestLimitsUnknown(t *testing.T) {
	l, err := LimitsOf(machine{}.fs())
	if err != nil || l.Check(1<<50, AnyNode) != nil || l.Check(1<<50, 0) != nil {
		t.Errorf("an empty tree limits: %v, %v", err, l.Check(1<<50, 0))
	}
	_, err = LimitsOf(plenty().with("proc/sys/vm/max_map_count", "many", "sys/devices/system/node/node1/cpulist", "4-x").fs())
	if err == nil || !strings.Contains(err.Error(), "max_map_count") || !strings.Contains(err.Error(), "node1/cpulist") {
		t.Errorf("damaged files: %v", err)
	}
}

const v2mount = "24 1 0:21 / /proc rw - proc proc rw\n31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

func TestCgroups(t *testing.T) {
	const v1mount = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	for name, c := range map[string]struct {
		files []string
		want  []Cgroup
	}{
		"none": {nil, nil},
		"v2 with max": {[]string{
			"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "max\n", "sys/fs/cgroup/a/memory.high", "max\n", "sys/fs/cgroup/a/memory.current", "5\n",
		}, nil},
		"v2 nested: own and parent": {[]string{
			"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "1000\n", "sys/fs/cgroup/a/b/memory.high", "900\n", "sys/fs/cgroup/a/b/memory.current", "300\n",
			"sys/fs/cgroup/a/b/memory.stat", "anon 100\nfile 200\ninactive_file 120\nactive_file 60\nslab_reclaimable 8\n",
			"sys/fs/cgroup/a/memory.max", "700\n", "sys/fs/cgroup/a/memory.current", "600\n",
		}, []Cgroup{
			{Path: "/a/b", File: "memory.max", Limit: 1000, Usage: 300, Reclaimable: 184},
			{Path: "/a/b", File: "memory.high", Limit: 900, Usage: 300, Reclaimable: 184},
			{Path: "/a", File: "memory.max", Limit: 700, Usage: 600},
		}},
		"v2 in a container: the path is not to be seen, the mount's top is": {[]string{
			"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/pod/x\n",
			"sys/fs/cgroup/memory.max", "50\n", "sys/fs/cgroup/memory.current", "20\n",
		}, []Cgroup{{Path: "/", File: "memory.max", Limit: 50, Usage: 20}}},
		"v2 outside the namespace": {[]string{
			"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/../../x\n", "sys/fs/cgroup/memory.max", "50\n",
		}, []Cgroup{{Path: "/", File: "memory.max", Limit: 50}}},
		"v1": {[]string{
			"proc/self/mountinfo", v1mount, "proc/self/cgroup", "9:cpu:/other\n4:memory:/job/1\n0::/\n",
			"sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "9223372036854771712\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n",
			"sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 10\n",
		}, []Cgroup{{Path: "/job", File: "memory.limit_in_bytes", Limit: 4096, Usage: 3000, Reclaimable: 30}}},
		"v1 in a container: the mount shows the group as its top": {[]string{
			"proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"proc/self/cgroup", "4:memory:/docker/abc\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", "77\n",
		}, []Cgroup{{Path: "/", File: "memory.limit_in_bytes", Limit: 77}}},
		"both, v2 at a path with a space": {[]string{
			"proc/self/mountinfo", v1mount + `41 31 0:38 / /sys/fs/my\040cgroup rw - cgroup2 cgroup2 rw` + "\n",
			"proc/self/cgroup", "4:memory:/\n0::/a\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", "10\n", "sys/fs/my cgroup/a/memory.max", "20\n",
		}, []Cgroup{{Path: "/", File: "memory.limit_in_bytes", Limit: 10}, {Path: "/a", File: "memory.max", Limit: 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := LimitsOf(plenty().with(c.files...).fs())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, l.Cgroups, cmpopts.IgnoreUnexported(Cgroup{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCgroupLeft(t *testing.T) {
	for _, c := range []struct {
		limit, usage, reclaimable, want uint64
	}{{100, 40, 10, 70}, {100, 200, 10, 0}, {100, 10, 40, 100}, {100, 150, 80, 30}} {
		if got := (Cgroup{Limit: c.limit, Usage: c.usage, Reclaimable: c.reclaimable}).Left(); got != c.want {
			t.Errorf("%+v: left %d", c, got)
		}
	}
}

// Each row is a machine on which 10 GiB do not fit, and the limits that are named.
func TestCheck(t *testing.T) {
	limits := "Max data size %d %d bytes\n"
	for name, c := range map[string]struct {
		files []string
		node  int
		want  []string
	}{
		"fits":                   {nil, 1, nil},
		"memory":                 {[]string{"proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: 10485760 kB\n"}, -1, []string{LimitMemory}}, // exactly 10 GiB leaves nothing
		"cgroup v2":              {[]string{"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/a", "sys/fs/cgroup/a/memory.max", "4294967296", "sys/fs/cgroup/memory.high", "4294967296"}, -1, []string{"cgroup memory.max", "cgroup memory.high"}},
		"data":                   {[]string{"proc/self/limits", strings.ReplaceAll(limits, "%d", "10737418240")}, -1, []string{LimitData}},
		"address space":          {[]string{"proc/self/limits", "Max address space 10737418240 unlimited bytes"}, -1, []string{LimitAddressSpace}},
		"maps":                   {[]string{"proc/sys/vm/max_map_count", "5"}, -1, []string{LimitMaps}},
		"commit":                 {[]string{"proc/sys/vm/overcommit_memory", "2", "proc/meminfo", "MemAvailable: 99999999 kB\nCommitLimit: 20000000 kB\nCommitted_AS: 10000000 kB"}, -1, []string{LimitCommit}},
		"commit is not enforced": {[]string{"proc/meminfo", "MemAvailable: 99999999 kB\nCommitLimit: 2 kB\nCommitted_AS: 1 kB"}, -1, nil},
		"node":                   {[]string{"sys/devices/system/node/node1/meminfo", nodeMeminfo(1, 536870912, 10000000, 1000)}, 1, []string{LimitNode}},
		"node's caches count":    {[]string{"sys/devices/system/node/node1/meminfo", nodeMeminfo(1, 536870912, 10000000, 1000000)}, 1, nil},
		"other node":             {[]string{"sys/devices/system/node/node1/meminfo", nodeMeminfo(1, 536870912, 10000000, 1000)}, 0, nil},
		"cpuset":                 {[]string{"proc/self/status", "Mems_allowed_list:\t0\n"}, 1, []string{LimitAllowedNodes}},
		"two at once":            {[]string{"proc/sys/vm/max_map_count", "5", "proc/meminfo", "MemAvailable: 1 kB\n"}, -1, []string{LimitMaps, LimitMemory}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := LimitsOf(plenty().with(c.files...).fs())
			if err != nil {
				t.Fatal(err)
			}
			err = l.Check(10*gib, c.node)
			if got := limitNames(err); !slices.Equal(got, c.want) {
				t.Errorf("limits %q, want %q: %v", got, c.want, err)
			}
			largest := l.Largest(c.node)
			if (largest >= 10*gib) != (err == nil) {
				t.Errorf("the largest pool has %d bytes, but: %v", largest, err)
			}
			if l.Check(largest+1, c.node) == nil || largest > 0 && l.Check(largest, c.node) != nil {
				t.Errorf("%d is not the largest", largest)
			}
		})
	}
}

// limitNames lists the limits in a joined error, in order.
func limitNames(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var names []string
		for _, e := range joined.Unwrap() {
			names = append(names, limitNames(e)...)
		}
		return names
	}
	var limit *LimitError
	if errors.As(err, &limit) {
		return []string{limit.Limit}
	}
	return nil
}

func TestCheckUnknownNode(t *testing.T) {
	l, _ := LimitsOf(plenty().fs())
	var node *NodeError
	if err := l.Check(1, 2); !errors.As(err, &node) || !slices.Equal(node.Have, []int{0, 1}) {
		t.Errorf("node 2: %v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	e := &LimitError{"cgroup memory.max", "/job", 3 * gib / 2, 10 * gib, "raise it"}
	if got, want := e.Error(), "pinned: does not fit cgroup memory.max of /job: 10 GiB needed, 1.5 GiB left: raise it"; got != want {
		t.Errorf("%q", got)
	}
	m := &LimitError{LimitMaps, "", 1, 4, "raise it"}
	if got, want := m.Error(), "pinned: does not fit vm.max_map_count: 4 needed, 1 left: raise it"; got != want {
		t.Errorf("%q", got)
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 5 * gib: "5 GiB", Unlimited: "unlimited", Unlimited - 1: "16.0 EiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("formatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

// This machine's own limits are read without an error, and a page fits.
func TestLimitsHere(t *testing.T) {
	l, err := Limits()
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || l.Total == 0 || l.Available == 0 || len(l.AllowedCPUs) == 0 || l.Maps == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := l.Check(4096, AnyNode); err != nil {
		t.Error(err)
	}
}
