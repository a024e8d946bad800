package soft_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/nvmetest"
	"github.com/tritier/tritier/libnvm/soft"
)

// stall holds back the completions of I/O commands while it has a gate.
type stall struct{ gate atomic.Pointer[chan struct{}] }

func (s *stall) Command(i *soft.CommandInfo) soft.Fault {
	if g := s.gate.Load(); i.Queue != 0 && g != nil {
		return soft.Fault{Gate: *g}
	}
	return soft.Fault{}
}

func (s *stall) hold(testing.TB) func() {
	g := make(chan struct{})
	s.gate.Store(&g)
	return func() {
		s.gate.Store(nil)
		close(g)
	}
}

// shapes are controllers of many shapes.
var shapes = map[string]struct {
	cfg    soft.Config
	driver libnvm.Config
	block  int
	chains bool
}{
	"default":      {cfg: soft.Config{CMBBytes: 1 << 20}},
	"512 bytes":    {cfg: soft.Config{DoorbellStride: 4, Threads: 2}, block: 512},
	"MQES 127":     {cfg: soft.Config{MaxDepth: 128, DoorbellStride: 4096, Queues: 3, CMBBytes: 64 << 10}},
	"small MDTS":   {cfg: soft.Config{MaxTransfer: 8192, Queues: 200, DoorbellStride: 8}, block: 512},
	"no MDTS":      {cfg: soft.Config{MaxTransfer: -1, ReadyDelay: 20 * time.Millisecond}, driver: libnvm.Config{MaxTransfer: 8 << 20}, chains: true},
	"one queue":    {cfg: soft.Config{Queues: 1, MaxDepth: 4096}, driver: libnvm.Config{AdminDepth: 3}},
	"64 KiB block": {cfg: soft.Config{Threads: 3}, block: 65536},
}

// TestConformance runs the suite over memory. The stall is a fault, with which
// every command takes the general path.
func TestConformance(t *testing.T) {
	for name := range shapes {
		t.Run(name, func(t *testing.T) {
			s := &stall{}
			cfg := shapes[name].cfg
			cfg.Faults = s
			if n := conform(t, name, cfg, s.hold); n != 0 {
				t.Errorf("%d commands took the fast path", n)
			}
		})
	}
}

// TestConformanceOfFastPath runs it with the fast path, which leaves out what
// needs a fault: commands that are stalled.
func TestConformanceOfFastPath(t *testing.T) {
	for name := range shapes {
		if shapes[name].block > 2*libnvm.PageSize {
			continue // each command needs a PRP list and takes the general path
		}
		t.Run(name, func(t *testing.T) {
			if conform(t, name, shapes[name].cfg, nil) == 0 {
				t.Error("no command took the fast path")
			}
		})
	}
}

// conform returns how many commands took the fast path.
func conform(t *testing.T, name string, cfg soft.Config, hold func(testing.TB) func()) uint64 {
	x := shapes[name]
	var all []*soft.Controller
	open := func(t testing.TB) libnvm.Transport {
		m, err := soft.NewMemory(64 << 20)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Namespaces = []soft.NamespaceConfig{{Backend: m, BlockSize: x.block}}
		s := start(t, 0, cfg)
		all = append(all, s)
		return s
	}
	stride := cfg.DoorbellStride
	if stride == 0 {
		stride = 64
	}
	nvmetest.Run(t, open, nvmetest.Options{
		Config: x.driver, DoorbellStride: stride, CMB: cfg.CMBBytes > 0, DoorbellEvents: true, Stall: hold, Aborts: true, Chains: x.chains,
	})
	fast := uint64(0)
	for _, s := range all {
		fast += s.Fast() // counts outlast Close
	}
	return fast
}
