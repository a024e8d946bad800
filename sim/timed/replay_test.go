package timed

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
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

func machine(t testing.TB, policy string, gpu, host, pages int) *tier.Machine {
	t.Helper()
	spec, err := placement.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	p, err := spec.Build(placement.Env{T1Frames: gpu, T2Frames: host, Pages: pages, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := tier.New(tier.Config{Pages: pages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// played is a replay at its end.
type played struct {
	Result
	counters tier.Counters
	replay   *Replay
}

func play(t testing.TB, m *servicetime.Model, o Options, mach *tier.Machine, pages int, accs []tier.Access) played {
	t.Helper()
	r, err := NewReplay(m, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Grow(pages)
	r.Run(mach, accs)
	before := mach.Counters()
	r.Flush(mach)
	res, err := r.Result(o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return played{res, before, r}
}

func accesses(list ...any) (out []tier.Access) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, tier.MakeAccess(placement.Page(list[i+1].(int)), list[i].(tier.Op)))
	}
	return out
}

// TestByHand: one access after another is the sum of its steps, worked out by
// hand, in nanoseconds.
func TestByHand(t *testing.T) {
	const (
		access, copied = 100, 10_000
		read, write    = 101_000, 21_000
	)
	for _, c := range []struct {
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
		), 8*access - 2*access + // seven accesses, of which a prefetch is none: see below
			read + // 0
			copied + read + // 1
			copied + read + // 2
			copied + copied + // 1
			copied + // 3
			write + copied + read + // 4
			write + copied + read + // 5
			access, 0, 0},
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
	} {
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

// drawTrace makes accesses of all kinds with some reuse.
func drawTrace(t *rapid.T, pages, n int) []tier.Access {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "trace"), 1))
	ops := []tier.Op{tier.Read, tier.Read, tier.Read, tier.Write, tier.Overwrite, tier.Prefetch}[:rapid.IntRange(1, 6).Draw(t, "ops")]
	accs := make([]tier.Access, n)
	for i := range accs {
		accs[i] = tier.MakeAccess(placement.Page(rng.IntN(1+rng.IntN(pages))), ops[rng.IntN(len(ops))])
	}
	return accs
}

// anomaly is how much slower a run with more of something may be. In a system with
// dependencies an access that begins earlier can delay others: list schedules have
// such anomalies (Graham, SIAM J. Applied Mathematics 17, 1969), up to a factor of
// 2. Here a page is awaited by few: in 4,000 drawn runs the worst was 2.2 %.
const anomaly = 0.08

var drawnPolicies = []string{"lru", "clock", "tier-order", "bypass", "random{t2copy=keep}", "gmt-reuse"}

// TestReplayRelations: decisions are those without time, every request ends,
// the bound holds exactly, one in flight is the slowest, and more never hurts.
func TestReplayRelations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		pages := rapid.IntRange(2, 400).Draw(t, "pages")
		gpu, host := rapid.IntRange(1, 100).Draw(t, "T1"), rapid.SampledFrom([]int{0, 1, 50, 200}).Draw(t, "T2")
		policy := rapid.SampledFrom(drawnPolicies).Draw(t, "policy")
		accs := drawTrace(t, pages, 1500)
		o := Options{InFlight: rapid.IntRange(1, 100).Draw(t, "in flight"), PageSize: 4096, Seed: 3}
		tt := testing.TB(fatal{t: t})
		run := func(m *servicetime.Model, o Options) played {
			return play(tt, m, o, machine(tt, policy, gpu, host, pages), pages, accs)
		}
		base := run(m, o)
		checkConserved(t, base, accs)
		plain := machine(tt, policy, gpu, host, pages)
		plain.Run(accs)
		checkWork(t, base, machine(tt, policy, gpu, host, pages), accs)
		if plain.Counters() != base.counters {
			t.Fatalf("counters %+v, without time %+v", base.counters, plain.Counters())
		}
		if base.Seconds < base.BoundSeconds*(1-1e-9) {
			t.Fatalf("%v s beat the bound of %v s", base.Seconds, base.BoundSeconds)
		}
		slower := func(name string, r played) {
			if r.Seconds > base.Seconds*(1+anomaly)+2e-6 {
				t.Fatalf("more %s is slower: %v s after %v s", name, r.Seconds, base.Seconds)
			}
		}
		more := o
		more.InFlight = 2 * o.InFlight
		slower("in flight", run(m, more))
		slower("drives", run(m.WithDrives(2*m.Drives.Count), o)) // twice: pages spread as before, or further
		wide := *m
		wide.Links = map[string]servicetime.Link{}
		for name, link := range m.Links {
			wide.Links[name] = servicetime.Link{Bandwidth: figure(link.Bandwidth.Value * 2)}
		}
		slower("bandwidth", run(&wide, o))
		if alone := run(m, Options{InFlight: 1, PageSize: 4096}); alone.Delayed != 0 || base.Seconds > alone.Seconds*(1+anomaly) {
			t.Fatalf("%d delayed alone; %v s, alone %v s", alone.Delayed, base.Seconds, alone.Seconds)
		}
	})
}

// fatal lets helpers of tests work in a rapid check.
type fatal struct {
	testing.TB
	t *rapid.T
}

func (f fatal) Helper()           {}
func (f fatal) Fatal(args ...any) { f.t.Fatal(args...) }

func TestReplayIsDeterministic(t *testing.T) {
	m := preset(t, "v100-4x980pro")
	rng := rand.New(rand.NewPCG(1, 2))
	accs := make([]tier.Access, 20_000)
	for i := range accs {
		accs[i] = tier.MakeAccess(placement.Page(rng.IntN(2000)), tier.Op(rng.IntN(3)))
	}
	for _, path := range m.PathNames() {
		run := func(seed uint64) Result {
			return play(t, m, Options{Path: path, InFlight: 64, PageSize: 65536, Seed: seed}, machine(t, "tier-order", 100, 400, 2000), 2000, accs).Result
		}
		a, b, c := run(1), run(1), run(2)
		if !reflect.DeepEqual(a, b) || a.Seconds == c.Seconds {
			t.Errorf("%s: same seed %v and %v s, another %v s", path, a.Seconds, b.Seconds, c.Seconds)
		}
		// Ten standard errors of the drives' latencies.
		if a.Seconds < a.BoundSeconds*0.98 || a.Label != "modelled" || a.Path != path {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

// TestReplayOfDrivesAlone: without a GPU only the drives take time.
func TestReplayOfDrivesAlone(t *testing.T) {
	m := byHand()
	m.GPU = nil
	accs := accesses(tier.Read, 0, tier.Read, 0, tier.Write, 1, tier.Read, 2)
	p := play(t, m, Options{InFlight: 1, PageSize: handPage}, machine(t, "tier-order", 1, 1, 3), 3, accs)
	if want := int64(3*101_000 + 21_000); p.replay.now != want {
		t.Errorf("%d ns, want %d", p.replay.now, want)
	}
}

func TestReplayRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"in flight; it must be": {PageSize: 4096},
		"no access path":        {PageSize: 4096, InFlight: 1, Path: "nothing"},
		"size of 1 byte":        {InFlight: 1},
	} {
		if _, err := NewReplay(byHand(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	slow := byHand()
	slow.Drives.Read.LatencyNS = figure(50e9)
	accs := make([]tier.Access, 200_000)
	for i := range accs {
		accs[i] = tier.MakeAccess(placement.Page(i), tier.Read)
	}
	r, err := NewReplay(slow, Options{InFlight: 1, PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	r.Grow(len(accs))
	r.Run(machine(t, "lru", 1, 0, len(accs)), accs)
	if _, err := r.Result(1); !errors.Is(err, ErrTooLong) {
		t.Errorf("10^7 s of virtual time: %v", err)
	}
}
