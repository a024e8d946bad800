package host

import (
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/tier"
)

// TestEvents: what events tell adds up to the statistics, with faults too.
func TestEvents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, "tier-order", [3]int{3, 5, 8}, seed)
	w.disk.failing = 0.02
	w.o.Retries = 3
	var count, bytes [EventKinds]uint64
	w.o.Events = func(e Event) {
		if e.Start.IsZero() || e.Took < 0 || e.Count <= 0 {
			t.Errorf("%v", e)
		}
		count[e.Kind] += uint64(e.Count)
		bytes[e.Kind] += e.Bytes
	}
	base := w.array(t, 1, 40)
	rng := rand.New(rand.NewPCG(seed, 0))
	var asked uint64
	for i := range 300 {
		b, which := batchOf(rng, base, 40*perPage, []tier.Op{tier.Read, tier.Write}[i%2])
		if w.Run(t.Context(), b) == nil {
			asked += uint64(8 * len(which))
		}
	}
	w.disk.failing = 0
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := w.Stats()
	for kind, want := range map[EventKind]uint64{EventRead: s.Edges[t3ToT2].Pages, EventWrite: s.Edges[t2ToT3].Pages} {
		if count[kind] < want || count[kind] > want+s.Failed || bytes[kind] != count[kind]*testPage {
			t.Errorf("%v: %d pages and %d bytes, %d moved and %d requests failed", kind, count[kind], bytes[kind], want, s.Failed)
		}
	}
	if count[EventRead]+count[EventWrite] != s.Edges[t3ToT2].Pages+s.Edges[t2ToT3].Pages+s.Failed {
		t.Errorf("%d reads and %d writes told of, %+v", count[EventRead], count[EventWrite], s)
	}
	for kind, e := range map[EventKind]edge{EventDemote: t1ToT2, EventPromote: t2ToT1} {
		if count[kind] != s.Edges[e].Pages || bytes[kind] != s.Edges[e].Bytes {
			t.Errorf("%v: %d pages, statistics say %d", kind, count[kind], s.Edges[e].Pages)
		}
	}
	c := s.Counters
	if missed := c.Accesses - c.T1Hits; count[EventMiss] < missed-c.Errors || count[EventFlush] != 1 || bytes[EventElements] < asked {
		t.Errorf("%d misses told of, %d counted; %d flushes; %d bytes of elements, %d asked for", count[EventMiss], missed, count[EventFlush], bytes[EventElements], asked)
	}
}
