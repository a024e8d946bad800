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
// 2. Here a page is awaited by few: the worst that drawn runs showed was 2.2 %.
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
