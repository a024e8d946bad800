package pinned

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// own is this machine's memory without its limits, so that the tests of the kernel's calls run in any container.
func own(size uint64) Config {
	return Config{Size: size, Node: AnyNode, Register: newDriver().register, ChunkBytes: ChunkAlign, Root: plenty().fs()}
}

// Pools that close, that fail and that are stuck leave no memory mapped; the addresses of a stuck chunk alone remain.
func TestNoMappingLeaks(t *testing.T) {
	const rounds, size = 40, 16 * mib
	before := mapped(t)
	for i := range rounds {
		cfg, d := own(size+3*page), newDriver()
		cfg.Register = d.register
		if i%2 == 1 {
			d.failAt, d.err = i%9, errDriver
		}
		p, err := Open(t.Context(), cfg)
		if (err != nil) != (i%2 == 1) {
			t.Fatal(err)
		}
		if p == nil {
			continue
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if grown := mapped(t) - before; grown > rounds/2*size/4 {
		t.Errorf("%d bytes of mappings are left", grown)
	}
}

// mapped adds up the writable mappings outside Go's heap, which lies at c000000000.
func mapped(t *testing.T) (sum int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(mode, "rw") && from>>32 != 0xc0 {
			sum += int(to - from)
		}
	}
	return sum
}

// After Close nothing is mapped where a stuck chunk was but the reservation, which holds no memory and cannot be reached.
func TestStuckChunkIsBlank(t *testing.T) {
	cfg, d := own(3*ChunkAlign), newDriver()
	cfg.Register, cfg.Workers, d.stuck = d.register, 1, map[int]error{1: errDriver}
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stuck := p.m.base + ChunkAlign
	if err := p.Close(); err == nil {
		t.Fatal("Close has no error")
	}
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	if line := fmt.Sprintf("%x-%x ---p", stuck, stuck+ChunkAlign); !strings.Contains(string(b), line) {
		t.Errorf("no mapping %q", line)
	}
}

// Workers run on the node's CPUs and no thread keeps that restriction.
func TestAffinityIsRestored(t *testing.T) {
	l, err := Limits()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.AllowedCPUs) < 2 {
		t.Skip("this process may use one CPU only")
	}
	only := l.AllowedCPUs[1]
	before := threadMasks(t)
	k := &watcher{linux: linux{}, only: only}
	cfg := own(64 * mib)
	cfg.Node, cfg.Workers, cfg.kernel = 0, 4, k
	cfg.Root = plenty().with("sys/devices/system/node/node0/cpulist", fmt.Sprint(only), "proc/self/status", "Cpus_allowed_list: 0-4095\nMems_allowed_list: 0-1\n").fs()
	p := mustOpen(t, cfg)
	if s := p.Stats(); k.seen == 0 || k.elsewhere > 0 || len(s.Notes) > 1 {
		t.Errorf("%d pieces were touched, %d of them by threads not pinned to CPU %d: %q", k.seen, k.elsewhere, only, s.Notes)
	}
	after := threadMasks(t)
	if len(before) != 1 || !slices.Equal(before, after) {
		t.Errorf("threads' CPUs were %q and are %q", before, after)
	}
}

// A thread whose affinity cannot be restored ends: nothing else of the program runs on it.
func TestThreadsOfLostAffinityEnd(t *testing.T) {
	l, err := Limits()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.AllowedCPUs) < 2 {
		t.Skip("this process may use one CPU only")
	}
	only := l.AllowedCPUs[1]
	// The first thread of a process cannot end: Go lets it sleep for ever.
	first := os.Getpid()
	before := threadMasks(t, first)
	cfg := own(64 * mib)
	cfg.Node, cfg.Workers, cfg.kernel = 0, 4, &stubborn{watcher{linux: linux{}, only: only}}
	cfg.Root = plenty().with("sys/devices/system/node/node0/cpulist", fmt.Sprint(only), "proc/self/status", "Cpus_allowed_list: 0-4095\nMems_allowed_list: 0-1\n").fs()
	p := mustOpen(t, cfg)
	if notes := p.Stats().Notes; !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "ended: "+unix.EPERM.Error()) }) {
		t.Errorf("notes %q", notes)
	}
	// The kernel lists a thread until it has ended, which it does after its goroutine.
	after := threadMasks(t, first)
	for begin := time.Now(); !slices.Equal(before, after) && time.Since(begin) < 20*time.Second; after = threadMasks(t, first) {
		time.Sleep(time.Millisecond)
	}
	if len(before) != 1 || !slices.Equal(before, after) {
		t.Errorf("threads' CPUs were %q and are %q", before, after)
	}
}

// stubborn restores no affinity.
type stubborn struct{ watcher }

func (s *stubborn) pin(cpus []int) (func() error, error) {
	_, err := s.watcher.pin(cpus)
	return func() error { return unix.EPERM }, err
}

// watcher looks at the affinity of the threads that touch. It leaves the NUMA policy alone, which a container may refuse.
type watcher struct {
	linux
	only            int
	mu              sync.Mutex
	seen, elsewhere int
}

func (w *watcher) bind([]byte, Policy, int) error { return nil }

func (w *watcher) populate(mem []byte) error {
	set := unix.NewCPUSet(maxCPUs)
	err := unix.SchedGetaffinityDynamic(0, set)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	if err != nil || set.Count() != 1 || !set.IsSet(w.only) {
		w.elsewhere++
	}
	return w.linux.populate(mem)
}

// threadMasks lists the different sets of CPUs of the process's threads, without those of some threads.
func threadMasks(t *testing.T, without ...int) (masks []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(files) == 0 {
		t.Skip("no threads in proc")
	}
	for _, f := range files {
		if slices.ContainsFunc(without, func(tid int) bool { return strings.Contains(f, fmt.Sprintf("/task/%d/", tid)) }) {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
		mask, _, _ := strings.Cut(rest, "\n")
		if mask = strings.TrimSpace(mask); !slices.Contains(masks, mask) {
			masks = append(masks, mask)
		}
	}
	slices.Sort(masks)
	return masks
}

// On the machine itself: memory bound to node 0 lies there.
func TestBoundHere(t *testing.T) {
	cfg := own(32 * mib)
	cfg.Root, cfg.Node, cfg.ChunkBytes = nil, 0, 0
	p := mustOpen(t, cfg)
	s := p.Stats()
	t.Logf("%+v", s)
	share, known := s.OnNode(0)
	if s.Policy != PolicyBound || !known {
		t.Skipf("the policy is %q and placement known %v: %q", s.Policy, known, s.Notes)
	}
	if share != 1 || len(s.Placement) != 1 {
		t.Errorf("%v of the memory is on node 0: %v", share, s.Placement)
	}
	if s.HugeShare > 1 {
		t.Errorf("%v of the memory in huge pages", s.HugeShare)
	}
}

// Every page is there after a start: neither way of touching leaves one out.
func TestEveryPageIsTouched(t *testing.T) {
	for _, loop := range []bool{false, true} {
		cfg := own(pieceBytes + 5*page)
		cfg.loop, cfg.HugePages = loop, HugeNever
		mem := mustOpen(t, cfg).Bytes()
		for off := uint64(0); off < uint64(len(mem)); off += 64 * page {
			part := mem[off:min(off+64*page, uint64(len(mem)))]
			in := make([]byte, uint64(len(part))/page)
			if err := mincore(part, in); err != nil {
				t.Skip(err)
			}
			if i := slices.Index(in, 0); i >= 0 {
				t.Fatalf("loop %v: page %d is not there", loop, off/page+uint64(i))
			}
		}
	}
}
