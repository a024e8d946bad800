package pinned

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// Limits stop a start before any address is taken.
func TestOpenLimits(t *testing.T) {
	little := []string{"proc/meminfo", "MemAvailable: 1000 kB\n", "sys/devices/system/node/node1/meminfo", nodeMeminfo(1, 100000, 1000, 0)}
	group := []string{"proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/", "sys/fs/cgroup/memory.max", "1000000"}
	for name, c := range map[string]struct {
		files []string
		edit  func(*Config)
		want  []string
	}{
		"memory":                          {little, nil, []string{LimitMemory}},
		"memory unchecked":                {little, func(c *Config) { c.Unchecked = true }, nil},
		"strict node":                     {little, func(c *Config) { c.Node, c.Strict = 1, true }, []string{LimitMemory, LimitNode}},
		"strict node, unchecked":          {little, func(c *Config) { c.Node, c.Strict, c.Unchecked = 1, true, true }, nil},
		"cgroup":                          {group, nil, []string{"cgroup memory.max"}},
		"cgroup, even with Unchecked set": {group, func(c *Config) { c.Unchecked = true }, []string{"cgroup memory.max"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l, _ := small(16 * mib)
			cfg.Root = plenty().with(c.files...).fs()
			if c.edit != nil {
				c.edit(&cfg)
			}
			p, err := Open(t.Context(), cfg)
			if got := limitNames(err); !slices.Equal(got, c.want) || (p != nil) != (c.want == nil) {
				t.Fatalf("limits %q, want %q: %v", got, c.want, err)
			}
			if p != nil {
				err = p.Close()
			} else if l.reserved != 0 {
				t.Error("addresses were taken all the same")
			}
			if p != nil && err != nil {
				t.Error(err)
			}
		})
	}
}

// shrinking is a machine whose memory another program takes while the pool starts.
type shrinking struct {
	fs.FS
	name, then string
	reads      atomic.Int64
}

func (s *shrinking) Open(name string) (fs.File, error) {
	if name == s.name && s.reads.Add(1) > 1 {
		return fstest.MapFS{name: &fstest.MapFile{Data: []byte(s.then)}}.Open(name)
	}
	return s.FS.Open(name)
}

func TestMemoryShrinksDuringStart(t *testing.T) {
	group := plenty().with("proc/self/mountinfo", v2mount, "proc/self/cgroup", "0::/", "sys/fs/cgroup/memory.max", "2000000000", "sys/fs/cgroup/memory.current", "0").fs()
	for _, c := range []struct {
		root *shrinking
		want string
	}{
		{&shrinking{FS: plenty().fs(), name: "proc/meminfo", then: "MemAvailable: 100000 kB\n"}, LimitMemory},
		{&shrinking{FS: group, name: "sys/fs/cgroup/memory.current", then: "1950000000"}, "cgroup memory.max"},
	} {
		cfg, l, d := small(512 * mib)
		cfg.Root, cfg.Workers, l.hollow = c.root, 1, true
		_, err := Open(t.Context(), cfg)
		if got := limitNames(err); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %v", c.want, err)
		}
		if l.touched == 0 || l.touched > 256*mib || len(d.live) != 0 {
			t.Errorf("%s: stopped after %d bytes, %d chunks registered", c.want, l.touched, len(d.live))
		}
		l.settle(t, 0)
	}
}

func TestPlacement(t *testing.T) {
	allow0 := []string{"proc/self/status", "Cpus_allowed_list: 0-7\nMems_allowed_list: 0\n"}
	busy1 := []string{"sys/devices/system/node/node1/meminfo", nodeMeminfo(1, 536870912, 1000, 0)}
	for name, c := range map[string]struct {
		files   []string
		edit    func(*Config, *ledger)
		policy  Policy
		bound   []string
		cpus    []int
		workers int
		note    string
	}{
		"any":                      {nil, func(c *Config, _ *ledger) { c.Node = AnyNode }, PolicyAny, nil, nil, 2, ""},
		"bound":                    {nil, nil, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 2, ""},
		"preferred":                {busy1, nil, PolicyPreferred, []string{"preferred 1"}, []int{4, 5, 6, 7}, 2, "node 1 has only"},
		"first touch":              {nil, func(_ *Config, l *ledger) { l.bindErr = syscall.EPERM }, PolicyFirstTouch, nil, []int{4, 5, 6, 7}, 2, "CAP_SYS_NICE"},
		"cpuset":                   {allow0, nil, PolicyAny, nil, nil, 2, "cpuset.mems"},
		"some CPUs":                {[]string{"proc/self/status", "Cpus_allowed_list: 0-5\n"}, nil, PolicyBound, []string{"bound 1"}, []int{4, 5}, 2, ""},
		"no CPUs":                  {[]string{"sys/devices/system/node/node1/cpulist", "\n"}, nil, PolicyBound, []string{"bound 1"}, nil, 2, ""},
		"no NUMA":                  {[]string{"sys/devices/system/node/online", "-"}, func(c *Config, _ *ledger) { c.Node = 0 }, PolicyAny, nil, nil, 2, ""},
		"many workers, few pieces": {nil, func(c *Config, _ *ledger) { c.Workers = 99 }, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 3, ""},
		"pinning refused":          {nil, func(_ *Config, l *ledger) { l.pinErr = syscall.EPERM }, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 2, "touched from any CPU"},
		"affinity not restored":    {nil, func(_ *Config, l *ledger) { l.unpinErr = syscall.EPERM }, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 2, "threads held to the node's CPUs were ended"},
		"no huge pages":            {nil, func(_ *Config, l *ledger) { l.hugeErr = syscall.EINVAL }, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 2, "huge pages"},
		"small pages":              {nil, func(c *Config, l *ledger) { c.HugePages, l.hugeErr = HugeNever, syscall.EINVAL }, PolicyBound, []string{"bound 1"}, []int{4, 5, 6, 7}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l, _ := small(2*pieceBytes + page)
			cfg.Node, cfg.Root, l.hollow = 1, plenty().with(c.files...).fs(), true
			if c.edit != nil {
				c.edit(&cfg, l)
			}
			p := mustOpen(t, cfg)
			s := p.Stats()
			if s.Policy != c.policy || s.Node != cfg.Node || s.Workers != c.workers || !slices.Equal(l.bound, c.bound) {
				t.Errorf("%+v, bound %q", s, l.bound)
			}
			if (len(l.pinned) > 0) != (c.cpus != nil) || c.cpus != nil && !slices.Equal(l.pinned[0], c.cpus) {
				t.Errorf("pinned to %v, want %v", l.pinned, c.cpus)
			}
			if all := strings.Join(s.Notes, "\n"); !strings.Contains(all, c.note) || (all == "") != (c.note == "") || len(s.Notes) > 1 {
				t.Errorf("notes %q, want one with %q", s.Notes, c.note)
			}
		})
	}
}

func TestPlacementFails(t *testing.T) {
	for name, edit := range map[string]func(*Config, *ledger){
		"unknown node":          func(c *Config, _ *ledger) { c.Node = 2 },
		"strict, mbind refused": func(c *Config, l *ledger) { c.Strict, l.bindErr = true, syscall.EPERM },
		"mbind fails":           func(_ *Config, l *ledger) { l.bindErr = syscall.EIO },
		"no addresses":          func(_ *Config, l *ledger) { l.reserveErr = syscall.ENOMEM },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l, _ := small(4 * mib)
			cfg.Node = 1
			edit(&cfg, l)
			p, err := Open(t.Context(), cfg)
			if p != nil || err == nil || l.touched != 0 {
				t.Fatalf("%v, %v", p, err)
			}
			var node *NodeError
			if errors.As(err, &node) != (cfg.Node == 2) || l.bindErr != nil && !errors.Is(err, l.bindErr) || l.reserveErr != nil && !errors.Is(err, l.reserveErr) {
				t.Error(err)
			}
			if l.reserved > 0 {
				l.settle(t, 0)
			}
		})
	}
}

// A kernel that cannot populate has its pages written one by one; a populate that fails stops the start.
func TestPopulate(t *testing.T) {
	for _, c := range []struct {
		err        error
		ok, kernel bool
	}{{nil, true, true}, {syscall.EINVAL, true, false}, {syscall.EPERM, true, false}, {syscall.EINTR, true, true}, {syscall.ENOMEM, false, false}, {syscall.EFAULT, false, false}} {
		cfg, l, _ := small(3*pieceBytes + page)
		cfg.Node = 0
		l.populating = func() error { return c.err }
		p, err := Open(t.Context(), cfg)
		if (err == nil) != c.ok {
			t.Fatalf("%v: %v", c.err, err)
		}
		if !c.ok {
			var touch *TouchError
			if !errors.As(err, &touch) || !errors.Is(err, c.err) {
				t.Errorf("%v: %v", c.err, err)
			}
			l.settle(t, 0)
			continue
		}
		if s := p.Stats(); s.Populate != c.kernel || (len(s.Notes) == 1) != !c.kernel {
			t.Errorf("%v: %+v", c.err, s)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A populate that fails for lack of memory names the limit.
func TestPopulateNamesLimit(t *testing.T) {
	cfg, l, _ := small(256 * mib)
	cfg.Workers, cfg.Root = 1, &shrinking{FS: plenty().fs(), name: "proc/meminfo", then: "MemAvailable: 100 kB\n"}
	l.populating = func() error { return syscall.ENOMEM }
	_, err := Open(t.Context(), cfg)
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != LimitMemory || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%v", err)
	}
	l.settle(t, 0)
}

func TestStats(t *testing.T) {
	cfg, l, _ := small(40*mib + page)
	cfg.Node = 0
	p := mustOpen(t, cfg)
	s := p.Stats()
	if s.Chunks != 21 || s.ChunkBytes != ChunkAlign || !s.Registered || !s.Contiguous || s.Touch <= 0 || s.Register <= 0 || s.Total < s.Touch || s.Rate() <= 0 {
		t.Errorf("%+v", s)
	}
	if d := cmp.Diff([]NodeShare{{0, 0.75}, {1, 0.25}}, s.Placement); d != "" {
		t.Error(d)
	}
	if share, known := s.OnNode(0); share != 0.75 || !known {
		t.Errorf("on node 0: %v, %v", share, known)
	}
	if share, known := s.OnNode(5); share != 0 || !known {
		t.Errorf("on node 5: %v, %v", share, known)
	}
	l.nodesErr, cfg.kernel = os.ErrPermission, l
	s = mustOpen(t, cfg).Stats()
	if _, known := s.OnNode(0); known || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "where the memory lies") {
		t.Errorf("%+v", s)
	}
}

func TestHugeShare(t *testing.T) {
	const smaps = "1000-3000 rw-p 00000000 00:00 0\nRss: 999 kB\nAnonHugePages: 999 kB\n" +
		"4000-8000 rw-p 00000000 00:00 0 [anon]\nSize: 16 kB\nRss:  16 kB\nAnonHugePages:  4 kB\nVmFlags: rd wr hg\n" +
		"8000-9000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages: 4 kB\n" +
		"9000-a000 rw-p 00000000 00:00 0\nRss: 999 kB\nAnonHugePages: 999 kB\n"
	root := machine{"proc/self/smaps": smaps}.fs()
	for _, c := range []struct {
		base, size uint64
		want       float64
	}{{0x4000, 0x4000, 0.25}, {0x4000, 0x5000, 0.4}, {0x5000, 0x1000, 0.25}, {0xb000, 0x1000, -1}} {
		if got := hugeShare(root, c.base, c.size); got != c.want {
			t.Errorf("%x+%x: %v, want %v", c.base, c.size, got, c.want)
		}
	}
	if got := hugeShare(machine{}.fs(), 0, 1); got != -1 {
		t.Errorf("without smaps: %v", got)
	}
}
