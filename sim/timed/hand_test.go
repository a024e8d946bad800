package timed

import (
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/tier"
)

// byHand has round figures, constant latencies and pages of 10,000 bytes: access
// 0.1 us, T2 to T1 and back 10 us, a read 100 us, a write 20 us, the initiator
// 1 us for either.
func byHand() *servicetime.Model {
	edge := func(lat, bw, conc float64, links ...string) servicetime.Edge {
		return servicetime.Edge{LatencyNS: figure(lat), Bandwidth: figure(bw), Concurrency: figure(conc), Links: links}
	}
	m := &servicetime.Model{Version: 1, Name: "hand", Links: map[string]servicetime.Link{"in": {Bandwidth: figure(10e9)}, "out": {Bandwidth: figure(10e9)}},
		GPU:       &servicetime.GPU{T1: edge(100, 1e12, 100), T2T1: edge(10000, 20e9, 10, "in"), T1T2: edge(10000, 20e9, 10, "out")},
		Drives:    servicetime.Drives{Count: 2, Read: edge(100000, 4e9, 50, "in"), Write: edge(20000, 2e9, 50, "out")},
		Initiator: &servicetime.Initiator{CostNS: figure(1000), Threads: figure(1)}}
	m.GPU.T1.AccessBytes = optional(1000)
	return m
}

const handPage = 10_000

// What the steps of byHand take, in ns; a command has 1 us of its initiator.
const (
	access, copied = 100, 10_000
	read, write    = 101_000, 21_000
)

// histories are worked out by hand.
var histories = []struct {
	name     string
	policy   string
	host     int
	path     string
	inFlight int
	accs     []tier.Access
	want     int64
	delayed  uint64
	gpu      int // frames; 0: one
}{
	{"one after another", "tier-order", 1, "", 1, accesses(
		tier.Read, 0, // read
		tier.Read, 0, // hit
		tier.Write, 1, // 0 to T2
		tier.Read, 2, // 1, dirty, to T2; 0 is dropped
		tier.Read, 1, // from T2, changing places with 2
		tier.Overwrite, 3, // 1, dirty, to T2; 2 is dropped
		tier.Read, 4, // 3, dirty, to T2; 1, dirty, to T3
		tier.Prefetch, 4, // nothing
		tier.Prefetch, 5, // 4 to T2; 3, dirty, to T3
	), 7*access + // a prefetch is none
		read + // 0
		copied + read + // 1
		copied + read + // 2
		copied + copied + // 1
		copied + // 3
		write + copied + read + // 4
		write + copied + read, // 5
		0, 0},
	{"without T2", "lru", 0, "", 1, accesses(tier.Write, 0, tier.Read, 1, tier.Write, 2), 3*access + 3*read + write + write, 0, 0},
	{"both at once", "lru", 0, "", 2, accesses(tier.Read, 0, tier.Read, 0), read + access, 1, 0},
	{"the frame must be full before it is empty", "lru", 0, "", 2, accesses(tier.Read, 0, tier.Read, 1), 2*read + access, 0, 0},
	// The second two begin when the first two have ended, at 101.1 and 102.1 us.
	// The write-back for the third ends at 122.1 us, and only then is its page
	// read again, 1 us ahead of the third's own: one thread initiates.
	{"read what is still being written", "lru", 0, "", 2, accesses(tier.Write, 0, tier.Read, 1, tier.Read, 2, tier.Read, 0),
		read + access + write + 1000 + read + access, 0, 2},
	{"a path that keeps one request", "lru", 0, "narrow", 2, accesses(tier.Read, 0, tier.Read, 1), 2*read + access, 0, 2},
	{"by way of host memory", "lru", 0, "staged", 1, accesses(tier.Write, 0, tier.Read, 1), read + copied + access + copied + write + read + copied + access, 0, 0},
}

// TestByHand: one access after another is the sum of its steps, worked out by
// hand, in nanoseconds.
func TestByHand(t *testing.T) {
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			m := byHand()
			m.Paths = map[string]servicetime.Path{"direct": {Initiator: m.Initiator, Ends: servicetime.InGPU, InFlight: optional(100), Read: []string{"in"}, Write: []string{"out"}},
				"narrow": {Initiator: m.Initiator, Ends: servicetime.InGPU, InFlight: optional(1), Read: []string{"in"}, Write: []string{"out"}},
				"staged": {Initiator: m.Initiator, Ends: servicetime.InHost, InFlight: optional(100)}}
			m.DefaultPath = "direct"
			p := play(t, m, Options{Path: c.path, InFlight: c.inFlight, PageSize: handPage}, machine(t, c.policy, max(1, c.gpu), c.host, 6), 6, c.accs)
			if got := p.replay.now; got != c.want || p.Delayed != c.delayed {
				t.Errorf("%d ns and %d delayed hits, want %d and %d; %+v", got, p.Delayed, c.want, c.delayed, p.Accesses)
			}
			checkConserved(t, p, c.accs)
			checkWork(t, p, machine(t, c.policy, max(1, c.gpu), c.host, 6), c.accs)
			for _, l := range p.Accesses {
				if l.Name == "delayed hit" && l.MaxNS != read+access {
					t.Errorf("the delayed hit took %d ns, want those of the read that it waited for", l.MaxNS)
				}
			}
		})
	}
}

// TestT1Concurrency: so many accesses at once, however many are in flight.
func TestT1Concurrency(t *testing.T) {
	m := byHand()
	m.GPU.T1.Concurrency = figure(1)
	accs := make([]tier.Access, 11)
	p := play(t, m, Options{InFlight: 11, PageSize: handPage}, machine(t, "lru", 1, 0, 1), 1, accs)
	if want := int64(101_000 + 11*100); p.replay.now != want || p.Delayed != 10 {
		t.Errorf("%d ns and %d delayed hits, want %d and 10", p.replay.now, p.Delayed, want)
	}
}
