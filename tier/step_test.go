package tier

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/placement"
)

// TestStep compares Step with Run, and what its steps say with the counters.
func TestStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, policy := range []string{"lru", "clock", "arc", "belady", "tier-order{t1=clock,t2=fifo}", "bypass", "gmt-reuse", "gmt-reuse{t2copy=keep}", "random{t2copy=keep}"} {
		for _, host := range []int{0, 40} {
			t.Run(fmt.Sprint(policy, host), func(t *testing.T) {
				const pages = 150
				accs := make([]Access, 20_000)
				for i := range accs {
					accs[i] = MakeAccess(placement.Page(rng.IntN(1+rng.IntN(pages))), Op(rng.IntN(4)))
				}
				run, step := machineFor(t, policy, host, pages, accs), machineFor(t, policy, host, pages, accs)
				run.Run(accs)
				c := countSteps(step, accs)
				if diff := cmp.Diff(run.Counters(), step.Counters()); diff != "" {
					t.Errorf("Step differs from Run (-run +step):\n%s", diff)
				}
				if diff := cmp.Diff(run.Counters(), c); diff != "" {
					t.Errorf("the steps differ from the counters (-counters +steps):\n%s", diff)
				}
				if err := step.Check(); err != nil || run.Position() != step.Position() || run.Now() != step.Now() {
					t.Errorf("%v; positions %d and %d", err, run.Position(), step.Position())
				}
			})
		}
	}
}

func machineFor(t *testing.T, policy string, host, pages int, accs []Access) *Machine {
	t.Helper()
	spec, err := placement.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	env := placement.Env{T1Frames: 20, T2Frames: host, Pages: pages, Seed: 1}
	if spec.NeedsFuture() {
		packed := make([]uint32, len(accs))
		for i, a := range accs {
			packed[i] = uint32(a)
		}
		if env.Future, err = placement.NewFuture(packed, pages); err != nil {
			t.Fatal(err)
		}
	}
	p, err := spec.Build(env)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Pages: pages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy, Future: env.Future})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// countSteps counts again from what the steps say.
func countSteps(m *Machine, accs []Access) (c Counters) {
	var s Step
	for _, a := range accs {
		m.Step(a, &s)
		if a.Op() != Prefetch {
			c.Accesses++
		}
		add := func(n *uint64, yes bool) {
			if yes {
				*n++
			}
		}
		add(&c.T1Hits, s.Kind == StepHit)
		add(&c.T2Hits, s.Kind == StepT2Hit)
		add(&c.T3Fetches, s.Kind == StepFetch)
		add(&c.Overwrites, s.Kind == StepOverwrite)
		add(&c.Prefetches, s.Kind == StepPrefetch || s.Kind == StepPrefetchT2)
		add(&c.PrefetchReads, s.Kind == StepPrefetch)
		add(&c.Evictions, s.Victim != placement.None)
		add(&c.Demotions, s.Copied || s.Saved)
		add(&c.CopiesSaved, s.Saved)
		add(&c.Bypasses, s.Victim != placement.None && !s.Copied && !s.Saved)
		add(&c.T2Evictions, s.Second != placement.None)
		add(&c.Writebacks, s.Write)
		add(&c.Writebacks, s.WriteSecond)
	}
	c.Keeps = m.c.Keeps // what stays moves nothing
	m.Unsaved(func(placement.Page, bool) { c.FinalDirty++ })
	return c
}
