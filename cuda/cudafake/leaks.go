package cudafake

import (
	"fmt"
	"slices"
)

// Leaks lists what is live: contexts, streams, events, modules, device memory,
// pinned and registered memory; and what still was when its context ended.
// After Close it lists what was live then. A context that was lost leaves no
// leak when it has ended, since nothing can be freed in one.
func (g *GPU) Leaks() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return slices.Clone(g.lost)
	}
	return g.leaks()
}

func (g *GPU) leaks() []string {
	all := slices.Clone(g.lost)
	for _, d := range g.devices {
		if x := d.primary; x != nil && !x.dead {
			all = append(all, fmt.Sprintf("context of device %d, retained %d times", d.ordinal, x.refs))
			all = append(all, g.leaksOf(x)...)
		}
	}
	return all
}

func (g *GPU) leaksOf(x *context) []string {
	var of []string
	for _, o := range g.objects {
		if m, ok := o.(member); ok && m.context() == x {
			of = append(of, m.String())
		}
	}
	slices.Sort(of)
	if !g.initialised {
		return of
	}
	for _, t := range []*table{&g.deviceArena.table, &g.hostArena.table, &g.registered} {
		for _, b := range t.blocks {
			if b.ctx == x && b.kind != globalBlock {
				of = append(of, b.String())
			}
		}
	}
	return of
}

// Violations lists what the fake saw and a driver would not report, or not so
// clearly: wrong argument counts, addresses of no memory, missing functions called, stale handles,
// frees of what is not live, copies that overlap or whose memory went away,
// bytes written beside an allocation, kernels nobody registered or that
// failed. A test of correct code finds none. The list ends at a thousand.
func (g *GPU) Violations() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.notes)
}
