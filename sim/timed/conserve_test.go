package timed

import (
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// checkConserved: every request ends once, at every place, and nobody is left.
func checkConserved(t interface{ Errorf(string, ...any) }, p played, accs []tier.Access) {
	r, n := p.replay, uint64(0)
	if r.began != r.ended || len(r.free) != len(r.requests) || r.began != uint64(len(accs))+p.counters.FinalDirty {
		t.Errorf("%d begun, %d ended, %d of %d free; the trace has %d, the flush %d", r.began, r.ended, len(r.free), len(r.requests), len(accs), p.counters.FinalDirty)
	}
	for i, s := range r.stations {
		if s.inUse != 0 || s.waiting != 0 || s.head != none {
			t.Errorf("station %d has %d served and %d waiting at the end", i, s.inUse, s.waiting)
		}
	}
	for _, on := range r.pending {
		if on != 0 {
			t.Errorf("a page is still on its way")
		}
	}
	c, toHost := p.counters, uint64(0)
	if r.toHost {
		toHost = c.SSDReads()
	}
	for _, l := range p.Accesses {
		if l.Name != "prefetch" {
			n += l.Count
		}
	}
	reads := r.edges[edgeRead].n
	if n != c.Accesses || reads != c.SSDReads() || r.edges[edgeWrite].n != c.Writebacks+c.FinalDirty || r.edges[edgeT2T1].n < c.T2Hits+toHost || r.edges[edgeT1T2].n < c.Demotions-c.CopiesSaved {
		t.Errorf("moves %d accesses, %d reads, %d writes, %d up, %d down; counters %+v", n, reads, r.edges[edgeWrite].n, r.edges[edgeT2T1].n, r.edges[edgeT1T2].n, c)
	}
}

// checkWork: every drive and link has worked for exactly what crossed it, counted
// once more from the steps of plain, a machine in which nothing has happened.
func checkWork(t interface{ Errorf(string, ...any) }, p played, plain *tier.Machine, accs []tier.Access) {
	r := p.replay
	drives := make([]cost, r.drives)
	var in, out, staged uint64 // payloads over the GPU's link; payloads by way of host memory
	drive := func(page placement.Page, op uint8) {
		drives[int(page)%r.drives] += max(r.ops[op].bytes+r.ops[op].command, r.ops[op].least)
	}
	write := func(page placement.Page, fromT1 bool) {
		drive(page, opWrite)
		if fromT1 {
			out++
		}
	}
	var s tier.Step
	for _, a := range accs {
		plain.Step(a, &s)
		switch s.Kind {
		case tier.StepFetch, tier.StepPrefetch:
			drive(a.Page(), opRead)
			in++
			staged++
		case tier.StepT2Hit, tier.StepPrefetchT2:
			in++
		}
		if s.Copied {
			out++
		}
		if s.Write {
			write(s.Victim, true)
		}
		if s.WriteSecond && s.Second != a.Page() {
			write(s.Second, false)
		}
	}
	plain.Unsaved(write)
	for i, want := range drives {
		if got := r.servers[atDrives+i].used; got != uint64(want>>costBits) {
			t.Errorf("drive %d worked for %d ps, want %d", i, got, want>>costBits)
		}
	}
	for i, name := range r.links {
		n := map[string]uint64{"in": in, "out": out, "both": in + out}[name]
		each := costOf(float64(r.size) / r.model.Links[name].Bandwidth.Value * 1e9)
		if got := r.servers[atDrives+r.drives+i].used; got != uint64(cost(n)*each>>costBits) {
			t.Errorf("link %s carried %d ps, want %d payloads of %d ps", name, got, n, each>>costBits)
		}
	}
	if r.toHost && r.edges[edgeT2T1].n < staged {
		t.Errorf("%d payloads were copied from host memory, want at least %d", r.edges[edgeT2T1].n, staged)
	}
}
