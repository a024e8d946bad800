package devicetest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/workload"
	"github.com/tritier/tritier/tier"
)

// sizes of T1 and T2, and of the set of pages of random traces.
var sizes = []struct{ t1, t2, pages int }{
	{1, 0, 8}, {1, 1, 8}, {2, 3, 16}, {4, 1, 16}, {3, 16, 64}, {16, 64, 160}, {64, 100, 400}, {33, 7, 90},
}

// placers by their number on the device.
var placers = []string{"bypass", "tier-order", "random", "gmt-reuse"}

// job is one comparison.
type job struct {
	t1, t2, pages int
	clock         bool
	placer        int
	policy        string
	seed          uint64
	lanes         int
	accesses      []tier.Access
	seen          *sums
}

// sums add up what the machine did in several jobs: a comparison of nothing
// proves nothing.
type sums struct{ all [4]tier.Counters }

func (s *sums) add(placer int, c tier.Counters) {
	if s == nil {
		return
	}
	a := &s.all[placer]
	a.T1Hits += c.T1Hits
	a.T2Hits += c.T2Hits
	a.Keeps += c.Keeps
	a.Demotions += c.Demotions
	a.Bypasses += c.Bypasses
	a.T2Evictions += c.T2Evictions
	a.Writebacks += c.Writebacks
	a.Overwrites += c.Overwrites
	a.PrefetchReads += c.PrefetchReads
	a.CopiesSaved += c.CopiesSaved
}

// check fails when a placer did not do what it is there for.
func (s *sums) check(t *testing.T) {
	t.Helper()
	for placer, a := range s.all {
		t.Logf("%s: %+v", placers[placer], a)
		idle := a.T1Hits*a.Bypasses*a.Writebacks*a.Overwrites*a.PrefetchReads == 0
		if placer != 0 {
			idle = idle || a.T2Hits*a.Demotions*a.T2Evictions*a.CopiesSaved == 0
		}
		if idle || placer == 3 && a.Keeps == 0 {
			t.Errorf("%s did nothing of some kind: the comparison is worth little", placers[placer])
		}
	}
}

func (j job) String() string {
	return fmt.Sprintf("%s, T1 %d, T2 %d, %d pages, %d accesses, seed %d, lanes %d", j.policy, j.t1, j.t2, j.pages, len(j.accesses), j.seed, j.lanes)
}

// policyText names a policy in the grammar, with parameters drawn from r.
func policyText(placer int, clock, keep bool, r *rand.Rand) string {
	t1 := "fifo"
	if clock {
		t1 = "clock"
	}
	tiers := "t1=" + t1 + ",t2=fifo"
	if keep {
		tiers += ",t2copy=keep"
	}
	switch placer {
	case 2:
		return fmt.Sprintf("random{p=%.2f,%s}", r.Float64(), tiers)
	case 3:
		return fmt.Sprintf("gmt-reuse{fit-every=64,first=%.2f,k=%d,r2=%.2f,starve=%.2f,vtd-direct=%d,window=%d,%s}", r.Float64(),
			1+r.IntN(3), r.Float64()/2, r.Float64(), r.IntN(3)*r.IntN(40), 1+r.IntN(100), tiers)
	default:
		return placers[placer] + "{" + tiers + "}"
	}
}

// policyOf builds a job's policy.
func policyOf(j job) (*placement.Policy, error) {
	spec, err := placement.Parse(j.policy)
	if err != nil {
		return nil, err
	}
	return spec.Build(placement.Env{T1Frames: j.t1, T2Frames: j.t2, Pages: j.pages, Seed: j.seed})
}

// machine is what tier.Machine counts.
func machine(t *testing.T, j job) tier.Counters {
	t.Helper()
	p, err := policyOf(j)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tier.New(tier.Config{Pages: j.pages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	if err != nil {
		t.Fatal(err)
	}
	m.Run(j.accesses)
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	return m.Counters()
}

// device is what the rig counts.
func device(t *testing.T, bin string, j job) (tier.Counters, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	raw := make([]byte, 0, 4*len(j.accesses))
	for _, a := range j.accesses {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(a))
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t1 := 1
	if j.clock {
		t1 = 0
	}
	args := []string{"mode=replay", "trace=" + file, "quick=1", "deadline=30000", fmt.Sprint("pages=", j.pages), fmt.Sprint("frames=", j.t1),
		fmt.Sprint("t2=", j.t2), "spares=1", "shift=4", fmt.Sprint("t1=", t1), fmt.Sprint("placer=", j.placer), fmt.Sprint("seed=", j.seed),
		fmt.Sprint("below=", below(j.policy)), fmt.Sprint("lanes=", j.lanes)}
	if strings.Contains(j.policy, "t2copy=keep") {
		args = append(args, "keep=1")
	}
	if j.placer == 3 {
		stop := serveReuse(t, j, &args)
		defer stop()
	}
	out, err := trial(t, bin, time.Minute, args)
	var c tier.Counters
	if err != nil {
		return c, fmt.Errorf("%v: %w", j, err)
	}
	if err := json.Unmarshal([]byte(lastLine(out)), &c); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return c, nil
}

// below is what a draw of the policy random is held against: placement's
// drawsBelow of its parameter p.
func below(policy string) uint64 {
	var p float64
	if _, after, ok := strings.Cut(policy, "random{p="); ok {
		if _, err := fmt.Sscanf(after, "%g", &p); err != nil {
			return 0
		}
	}
	return uint64(p * (1 << 53))
}

func compare(t *testing.T, bin string, j job) {
	t.Helper()
	if err := difference(t, bin, j); err != nil {
		t.Error(err)
	}
}

// difference says how the device's counters differ from the machine's.
func difference(t *testing.T, bin string, j job) error {
	t.Helper()
	want := machine(t, j)
	got, err := device(t, bin, j)
	j.seen.add(j.placer, want)
	if err != nil {
		return err
	}
	if d := cmp.Diff(want, got); d != "" {
		return fmt.Errorf("%v: the machine and the device differ (-machine +device):\n%s", j, d)
	}
	return nil
}

// parityTrial compares once for each placer, with one thread or with lanes, and
// a log of T2's order that has to be compacted.
func parityTrial(t *testing.T, bin string, lanes bool, seed uint64) error {
	t.Helper()
	for placer := range placers {
		r := rand.New(rand.NewPCG(seed, uint64(placer)))
		j := job{t1: 9, t2: 14, pages: 60, clock: true, placer: placer, policy: policyText(placer, true, r.IntN(2) == 0, r), seed: r.Uint64() >> 1,
			lanes: 1, accesses: randomTrace(r, 60, 6000)}
		switch {
		case lanes:
			j.lanes, j.accesses = 4, j.accesses[:800]
		case seed%2 == 0: // few pages, so that each has a long history
			j.t1, j.t2, j.pages, j.accesses = 2, 3, 8, randomTrace(r, 8, 6000)
			j.policy = policyText(placer, true, r.IntN(2) == 0, r)
		}
		if err := difference(t, bin, j); err != nil {
			return err
		}
	}
	return nil
}

// randomTrace mixes reads, writes, overwrites and prefetches of pages that are
// hot, or near one another, or anywhere.
func randomTrace(r *rand.Rand, pages, n int) []tier.Access {
	accs := make([]tier.Access, n)
	at := 0
	for i := range accs {
		switch r.IntN(4) {
		case 0:
			at = r.IntN(pages)
		case 1:
			at = r.IntN(1 + pages/4)
		case 2:
			at = (at + 1) % pages
		}
		op := tier.Read
		if r.IntN(3) == 0 {
			op = tier.Op(1 + r.IntN(3))
		}
		accs[i] = tier.MakeAccess(placement.Page(at), op)
	}
	return accs
}

// TestParityRandom: every decision is tier.Machine's, for random traces.
func TestParityRandom(t *testing.T) {
	bin := program(t, plain)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var seen sums
	defer seen.check(t)
	for placer := range placers {
		for _, clock := range []bool{true, false} {
			for i, s := range sizes {
				r := rand.New(rand.NewPCG(seed, uint64(placer*100+i)))
				j := job{t1: s.t1, t2: s.t2, pages: s.pages, clock: clock, placer: placer, policy: policyText(placer, clock, clock == (i%2 == 0), r),
					seed: r.Uint64() >> 1, lanes: 1, accesses: randomTrace(r, s.pages, 4000), seen: &seen}
				compare(t, bin, j)
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		}
	}
}

// TestParityLanes: so are a warp's, whose lanes look at frames together.
func TestParityLanes(t *testing.T) {
	bin := program(t, plain)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for placer := range placers {
		for i, lanes := range []int{2, 4} {
			s := sizes[4+i]
			r := rand.New(rand.NewPCG(seed, uint64(placer*10+i)))
			compare(t, bin, job{t1: s.t1, t2: s.t2, pages: s.pages, clock: true, placer: placer, policy: policyText(placer, true, r.IntN(2) == 0, r),
				seed: r.Uint64() >> 1, lanes: lanes, accesses: randomTrace(r, s.pages, 300)})
		}
	}
}

// workloadTrace is a generated workload's accesses, and its pages.
func workloadTrace(t *testing.T, text string) ([]tier.Access, int) {
	t.Helper()
	w, err := workload.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := w.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := sim.NewStream(reader, text, 64<<10)
	defer s.Close()
	var all []tier.Access
	var b sim.Block
	for {
		switch err := s.Next(&b, 4096); {
		case errors.Is(err, io.EOF):
			return all, s.Info().Pages
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, b.Accesses...)
	}
}

// TestParityWorkloads: the same for generated workloads, with T1 and T2 in the
// ratio of GMT's paper.
func TestParityWorkloads(t *testing.T) {
	bin := program(t, plain)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, text := range []string{
		"zipf{pages=400,accesses=20000,writes=0.2}", "loop{pages=150,accesses=8000,writes=0.1}",
		"mix{pages=200,scan-pages=400,scan=0.4,accesses=12000,writes=0.3}", "shift{pages=120,accesses=10000}",
	} {
		accs, pages := workloadTrace(t, text)
		for placer := range placers {
			for _, clock := range []bool{true, false} {
				r := rand.New(rand.NewPCG(seed, uint64(10*i+placer)))
				compare(t, bin, job{t1: max(1, pages/10), t2: pages * 4 / 10, pages: pages, clock: clock, placer: placer,
					policy: policyText(placer, clock, clock == (i%2 == 0), r), seed: r.Uint64() >> 1, lanes: 1, accesses: accs})
			}
		}
	}
}
