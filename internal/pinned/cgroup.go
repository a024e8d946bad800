package pinned

import (
	"path"
	"strings"
)

// Cgroup is one memory limit of a control group that the process is in, directly or through a parent.
type Cgroup struct {
	Path        string // of the group, as the process sees it
	File        string // "memory.max", "memory.high" or, in version 1, "memory.limit_in_bytes"
	Limit       uint64 // bytes
	Usage       uint64 // bytes, caches included
	Reclaimable uint64 // bytes of caches in Usage

	dir string // where the group lies in the tree
}

// Left returns the bytes that the group still gives.
func (c Cgroup) Left() uint64 {
	used := c.Usage - min(c.Usage, c.Reclaimable)
	return c.Limit - min(c.Limit, used)
}

// cgroupMount is where one of the two hierarchies that can limit memory is mounted.
type cgroupMount struct {
	point, root string // root is the group that the mount shows at its top
	v2          bool
}

// noLimit is the least value of version 1 that means no limit: the kernel writes the largest multiple of a page.
const noLimit = 1 << 62

// cgroups returns every memory limit that applies, the process's own group first, without usages. Both versions are read: a machine may
// have both mounted.
func (t *tree) cgroups() []Cgroup {
	var all []Cgroup
	for _, m := range t.cgroupMounts() {
		for _, group := range t.groupPaths(m) {
			all = append(all, t.group(m, group)...)
		}
	}
	return all
}

// cgroupMounts finds the hierarchies in the list of mounts: its fields are separated from the file system's by a lone dash.
func (t *tree) cgroupMounts() []cgroupMount {
	s, _ := t.text("proc/self/mountinfo")
	var mounts []cgroupMount
	for line := range strings.Lines(s) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 1 {
			continue
		}
		v1 := a[0] == "cgroup" && len(a) > 2 && hasWord(a[2], "memory")
		if a[0] == "cgroup2" || v1 {
			mounts = append(mounts, cgroupMount{point: unescape(b[4]), root: unescape(b[3]), v2: !v1})
		}
	}
	return mounts
}

// groupPaths returns the process's group below the mount and all its parents up to the mount's top, which may be all that a container sees.
func (t *tree) groupPaths(m cgroupMount) []string {
	s, _ := t.text("proc/self/cgroup")
	own := ""
	for line := range strings.Lines(s) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (m.v2 && f[0] == "0" && f[1] == "" || !m.v2 && hasWord(f[1], "memory")) {
			own = f[2]
		}
	}
	if own == "" {
		return nil
	}
	if m.root != "/" {
		if own != m.root && !strings.HasPrefix(own, m.root+"/") {
			own = "/" // the mount shows another part of the hierarchy: its top is the nearest that can be seen
		}
		own = strings.TrimPrefix(own, m.root)
	}
	own = path.Clean("/" + own) // a group outside the namespace is written with leading dots
	paths := []string{own}
	for own != "/" {
		own = path.Dir(own)
		paths = append(paths, own)
	}
	return paths
}

func (t *tree) group(m cgroupMount, group string) []Cgroup {
	dir := strings.TrimPrefix(path.Join(m.point, group), "/") + "/"
	files := []string{"memory.limit_in_bytes"}
	if m.v2 {
		files = []string{"memory.max", "memory.high"}
	}
	var found []Cgroup
	for _, file := range files {
		if limit := t.number(dir + file); limit < noLimit {
			found = append(found, Cgroup{Path: group, File: file, Limit: limit, dir: dir})
		}
	}
	return found
}

// usage reads how much of a limit is taken. A usage that cannot be read counts as nothing.
func (t *tree) usage(c Cgroup) Cgroup {
	current, prefix := "memory.current", ""
	if c.File == "memory.limit_in_bytes" {
		current, prefix = "memory.usage_in_bytes", "total_" // with the groups below, as the usage is
	}
	c.Usage, c.Reclaimable = 0, 0
	if n := t.number(c.dir + current); n != Unlimited {
		c.Usage = n
	}
	stat := t.table(c.dir + "memory.stat")
	c.Reclaimable = stat[prefix+"inactive_file"] + stat[prefix+"active_file"] + stat["slab_reclaimable"]/2
	return c
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
