package placement

import "fmt"

// Env is what a policy is built for.
type Env struct {
	T1Frames int     // frames of GPU memory, at least 1
	T2Frames int     // frames of host memory; 0 is no host tier
	Pages    int     // pages known now; Grow adds more
	Seed     uint64  // of every random choice
	Future   *Future // the whole trace, for belady; else nil
}

// Policy is a Spec built for one memory. Its parts belong to one owner.
type Policy struct {
	Spec       Spec
	T1         Evictor
	T2         Evictor // nil without a host tier
	Placer     Placer
	KeepT2Copy bool // t2copy=keep
}

// SizeError says that a tier is too small for its policy.
type SizeError struct {
	Policy string // the evictor's name
	Tier   string // "T1" or "T2"
	Frames int    // the size asked for
	Min    int    // the smallest size that makes sense
}

// Error names policy, tier and both sizes.
func (e *SizeError) Error() string {
	have := fmt.Sprintf("%d frames are", e.Frames)
	if e.Frames == 1 {
		have = "1 frame is"
	}
	return fmt.Sprintf("%s in %s: %s too few: it needs at least %d", e.Policy, e.Tier, have, e.Min)
}

// FutureError says that a policy needs to know the whole trace.
type FutureError struct {
	Policy string // the evictor's name
	Tier   string // "T1" or "T2"
}

// Error says what the policy needs and where it can be used.
func (e *FutureError) Error() string {
	return fmt.Sprintf("%s in %s needs the whole trace in advance: use it in the simulator, with a trace that fits in memory", e.Policy, e.Tier)
}

// The draws of a policy's parts must not be correlated: each evictor has a
// seed of its own. The placer has the seed itself.
const (
	seedT1 = 0x54315f65766963
	seedT2 = 0x54325f65766963
)

// NeedsFuture says whether Build needs Env.Future.
func (s Spec) NeedsFuture() bool {
	return s.placer != nil && (s.t1.def.future || s.t2.def.future)
}

// Build makes the policy for a memory. A tier that is too small gives a
// *SizeError, an offline policy without a trace a *FutureError.
func (s Spec) Build(env Env) (*Policy, error) {
	switch {
	case s.placer == nil:
		return nil, fmt.Errorf("an empty policy cannot be built: make one with Parse")
	case env.Pages < 0 || env.Pages > MaxPages:
		return nil, fmt.Errorf("%s: %d pages, a policy holds 0 to %d: use larger pages", s.placer.name, env.Pages, MaxPages)
	}
	t1, err := s.t1.build("T1", env.T1Frames, env.Seed^seedT1, env)
	if err != nil {
		return nil, err
	}
	p := &Policy{Spec: s, T1: t1}
	if env.T2Frames != 0 {
		if p.T2, err = s.t2.build("T2", env.T2Frames, env.Seed^seedT2, env); err != nil {
			return nil, err
		}
	}
	if p.Placer, err = s.placer.build(placerConfig{env, s, s.args}); err != nil {
		return nil, fmt.Errorf("%s: %w", s.placer.name, err)
	}
	if a, ok := p.Placer.(*Adaptive); ok && p.T2 != nil {
		p.T2 = a.wrapT2(p.T2)
	}
	for i, q := range s.placer.params {
		if q.name == t2copy.name {
			p.KeepT2Copy = s.args[i].text == "keep"
		}
	}
	return p, nil
}

// build makes the evictor of one tier.
func (e evictorSpec) build(tier string, frames int, seed uint64, env Env) (Evictor, error) {
	switch {
	case frames < e.def.min:
		return nil, &SizeError{e.def.name, tier, frames, e.def.min}
	case e.def.future && env.Future == nil:
		return nil, &FutureError{e.def.name, tier}
	}
	ev, err := e.def.build(evictorConfig{frames, env.Pages, seed, env.Future, e.args})
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", e, tier, err)
	}
	return ev, nil
}
