package soft

import (
	"sync"
	"time"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
)

// ModelPacer is a Pacer that makes a software drive as slow as one drive of a
// servicetime.Model: latency distribution, IOPS, bandwidth and concurrency. It
// cannot make it faster than what really serves it. Results that were paced
// are modelled and must say so. It is safe for concurrent use.
type ModelPacer struct {
	mu   sync.Mutex // guards q
	q    *servicetime.Queue
	name string
}

// NewModelPacer returns the pacer of one drive; drives of an array take
// different seeds.
func NewModelPacer(m *servicetime.Model, seed uint64) *ModelPacer {
	return &ModelPacer{q: m.NewQueue(seed), name: m.Name}
}

// Model is the name of the model, for the reports.
func (p *ModelPacer) Model() string { return p.name }

// Finish implements Pacer. Commands that move no data, and admin commands, are
// not paced. Write zeroes takes a write's time without the transfer.
func (p *ModelPacer) Finish(now time.Duration, c *CommandInfo) time.Duration {
	op, size := servicetime.OpRead, uint64(max(c.Bytes, 0))
	if c.Queue == 0 {
		return now
	}
	switch c.Opcode {
	case libnvm.OpRead, libnvm.OpCompare:
	case libnvm.OpWrite:
		op = servicetime.OpWrite
	case libnvm.OpWriteZeroes:
		op, size = servicetime.OpWrite, 0
	default:
		return now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.q.Submit(uint64(max(now, 0)), op, size))
}
