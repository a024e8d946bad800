package pinned

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// ledger is the machine's kernel, with an account of what is mapped and with calls that can be made to fail.
type ledger struct {
	kernel
	hollow     bool // populate does nothing, so that large pools cost nothing
	populating func() error
	bindErr    error
	hugeErr    error
	pinErr     error
	unpinErr   error
	nodesErr   error
	reserveErr error

	mu       sync.Mutex
	reserved uint64
	released uint64
	blanked  uint64
	touched  uint64
	pieces   map[uint64]uint64 // populated, by address
	bound    []string
	pinned   [][]int
}

func newLedger() *ledger { return &ledger{kernel: machineKernel(), pieces: make(map[uint64]uint64)} }

func (l *ledger) count(n *uint64, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n += uint64(by)
}

func (l *ledger) reserve(size, align uint64) ([]byte, error) {
	if l.reserveErr != nil {
		return nil, l.reserveErr
	}
	mem, err := l.kernel.reserve(size, align)
	l.count(&l.reserved, len(mem))
	return mem, err
}

func (l *ledger) release(mem []byte) error {
	l.count(&l.released, len(mem))
	return l.kernel.release(mem)
}

func (l *ledger) blank(mem []byte) error {
	l.count(&l.blanked, len(mem))
	return l.kernel.blank(mem)
}

func (l *ledger) huge(mem []byte, on bool) error {
	if l.hugeErr != nil {
		return l.hugeErr
	}
	return l.kernel.huge(mem, on)
}

func (l *ledger) populate(mem []byte) error {
	l.count(&l.touched, len(mem))
	if l.populating != nil {
		if err := l.populating(); err != nil {
			return err
		}
	}
	if !l.hollow {
		if err := l.kernel.populate(mem); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pieces[address(mem)] = uint64(len(mem))
	return nil
}

// populatedIn adds up how much of mem has been populated.
func (l *ledger) populatedIn(mem []byte) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to := address(mem), address(mem)+uint64(len(mem))
	for addr, size := range l.pieces {
		if a, b := max(from, addr), min(to, addr+size); a < b {
			n += int(b - a)
		}
	}
	return n
}

func (l *ledger) bind(mem []byte, policy Policy, node int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bindErr == nil {
		l.bound = append(l.bound, fmt.Sprintf("%s %d", policy, node))
	}
	return l.bindErr
}

func (l *ledger) pin(cpus []int) (func() error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinned = append(l.pinned, slices.Clone(cpus))
	return func() error { return l.unpinErr }, l.pinErr
}

func (l *ledger) nodesOf(mem []byte, offsets []uint64) ([]int, error) {
	if l.nodesErr != nil {
		return nil, l.nodesErr
	}
	nodes := make([]int, len(offsets))
	for i := range nodes {
		nodes[i] = i % 4 / 3 // three of four on node 0
	}
	return nodes, nil
}

// settle checks that nothing but blanked bytes is left mapped.
func (l *ledger) settle(t *testing.T, blanked uint64) {
	t.Helper()
	if l.reserved == 0 || l.reserved != l.released+l.blanked || l.blanked != blanked {
		t.Errorf("mapped %d bytes, released %d, blanked %d (want %d): memory leaks", l.reserved, l.released, l.blanked, blanked)
	}
}

// driver is a device's driver that can fail.
type driver struct {
	failAt   int              // fails at this call; -1 never
	err      error            // with this
	stuck    map[int]error    // unregistering these calls' chunks fails
	base     func(int) uint64 // device address of a call's chunk; nil: the host's
	observed func(call int)

	mu    sync.Mutex
	calls int
	live  map[uint64]int // registered bytes by host address
	order []int          // calls undone, in order
}

func newDriver() *driver { return &driver{failAt: -1, live: make(map[uint64]int)} }

var errDriver = errors.New("driver says no")

func (d *driver) register(mem []byte) (uint64, func() error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call, addr := d.calls, address(mem)
	d.calls++
	if d.observed != nil {
		d.observed(call)
	}
	if call == d.failAt {
		return 0, nil, d.err
	}
	for i := range mem[:min(len(mem), 64)] {
		if mem[i] != 0 {
			return 0, nil, fmt.Errorf("byte %d is %d", i, mem[i])
		}
	}
	d.live[addr] = len(mem)
	device := addr
	if d.base != nil {
		device = d.base(call)
	}
	return device, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.order = append(d.order, call)
		if err := d.stuck[call]; err != nil {
			return err
		}
		delete(d.live, addr)
		return nil
	}, nil
}

// machine builds the proc and sys of a machine.
type machine map[string]string

// plenty has 1 TiB on two nodes, and nothing limits it.
func plenty() machine {
	return machine{
		"proc/meminfo":                                      "MemTotal: 1073741824 kB\nMemFree: 1000000000 kB\nMemAvailable: 1000000000 kB\nCommitLimit: 500000000 kB\nCommitted_AS: 1000 kB\n",
		"proc/self/limits":                                  "Limit                     Soft Limit           Hard Limit           Units     \nMax data size             unlimited            unlimited            bytes     \nMax locked memory         unlimited            unlimited            bytes     \nMax address space         unlimited            unlimited            bytes     \n",
		"proc/self/status":                                  "Name:\ttest\nVmSize:\t  1000 kB\nVmData:\t  500 kB\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-1\n",
		"proc/self/maps":                                    "a\nb\nc\n",
		"proc/sys/vm/max_map_count":                         "65530\n",
		"proc/sys/vm/overcommit_memory":                     "0\n",
		"sys/devices/system/node/online":                    "0-1\n",
		"sys/devices/system/node/node0/cpulist":             "0-3\n",
		"sys/devices/system/node/node1/cpulist":             "4-7\n",
		"sys/devices/system/node/node0/meminfo":             nodeMeminfo(0, 536870912, 500000000, 4000),
		"sys/devices/system/node/node1/meminfo":             nodeMeminfo(1, 536870912, 500000000, 4000),
		"sys/kernel/mm/transparent_hugepage/enabled":        "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/defrag":         "always defer defer+madvise [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
	}
}

func nodeMeminfo(node, total, free, file int) string {
	return fmt.Sprintf("\nNode %[1]d MemTotal:       %[2]d kB\nNode %[1]d MemFree:        %[3]d kB\nNode %[1]d Active(file):  %[4]d kB\nNode %[1]d Inactive(file): %[4]d kB\nNode %[1]d SReclaimable: %[4]d kB\nNode %[1]d HugePages_Total:     0\n", node, total, free, file)
}

// with returns a copy in which some files differ; "-" removes one.
func (m machine) with(pairs ...string) machine {
	c := make(machine)
	for k, v := range m {
		c[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if c[pairs[i]] = pairs[i+1]; pairs[i+1] == "-" {
			delete(c, pairs[i])
		}
	}
	return c
}

func (m machine) fs() fs.FS {
	f := make(fstest.MapFS)
	for k, v := range m {
		f[k] = &fstest.MapFile{Data: []byte(v)}
	}
	return f
}

// small returns a configuration of small chunks over a fake machine, a ledger and a driver.
func small(size uint64) (Config, *ledger, *driver) {
	l, d := newLedger(), newDriver()
	return Config{Size: size, Node: AnyNode, ChunkBytes: ChunkAlign, Workers: 2, Register: d.register, Root: plenty().fs(), kernel: l}, l, d
}

func mustOpen(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
