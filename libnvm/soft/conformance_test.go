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

// TestConformance runs the suite over memory, with controllers of many shapes.
func TestConformance(t *testing.T) {
	for name, x := range map[string]struct {
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
	} {
		t.Run(name, func(t *testing.T) {
			s := &stall{}
			x.cfg.Faults = s
			open := func(t testing.TB) libnvm.Transport {
				m, err := soft.NewMemory(64 << 20)
				if err != nil {
					t.Fatal(err)
				}
				cfg := x.cfg
				cfg.Namespaces = []soft.NamespaceConfig{{Backend: m, BlockSize: x.block}}
				return start(t, 0, cfg)
			}
			stride := x.cfg.DoorbellStride
			if stride == 0 {
				stride = 64
			}
			nvmetest.Run(t, open, nvmetest.Options{
				Config: x.driver, DoorbellStride: stride, CMB: x.cfg.CMBBytes > 0, DoorbellEvents: true, Stall: s.hold, Aborts: true, Chains: x.chains,
			})
		})
	}
}
