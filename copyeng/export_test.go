package copyeng

import "time"

// SetPatience bounds the waits that have no context, of queues made from now on
// and of what has no queue.
func (g *GPU) SetPatience(d time.Duration) { g.patience = d }

// SpaceAt is a space over addresses that the engine did not hand out. mem is
// the memory as the CPU has it, nil for device memory.
func (g *GPU) SpaceAt(kind Kind, addr, size uint64, mem []byte) *Space {
	return &Space{owner: g, kind: kind, addr: addr, size: size, bytes: mem}
}

// ExchangeBy is Queue.Exchange by a path that the caller takes.
func ExchangeBy(q Queue, p Path, in, out *Batch) error { return q.(*gpuQueue).exchange(p, in, out) }
