package tune

import (
	"context"
	"errors"
	"strings"

	"github.com/tritier/tritier/placement"
)

// examine says how sensitive the winner is to each of its settings, what wrong
// sizes cost, and down to where it is safe: all in training, on whole traces.
func (s *search) examine(ctx context.Context, r *Report, winner Candidate) error {
	near := s.p.neighbours(winner)
	sizes := s.wrongSizes(winner)
	halves := s.halves(winner)
	at := len(s.ladder) - 1
	var tasks []Task
	for i := range s.p.Traces {
		for _, n := range near {
			tasks = append(tasks, s.training(n.Candidate, i, at))
		}
		for _, w := range sizes {
			if w.Refuse == "" {
				tasks = append(tasks, s.sized(winner, i, w.Frames))
			}
		}
		for _, frames := range halves {
			tasks = append(tasks, s.sized(winner, i, frames), s.sized(Candidate{lru(), winner.Size}, i, frames))
		}
	}
	if err := s.do(ctx, append(tasks, s.trainings(winner)...)); err != nil {
		return err
	}
	own, _ := s.score(winner, at)
	for _, n := range near {
		s.note(n.Candidate, at)
	}
	r.Sensitivity = s.sensitivity(winner, own, near)
	r.WrongSizes = s.chargeSizes(winner, own, sizes)
	r.SafeMinimum = s.safeMinimum(winner, halves)
	return nil
}

func (s *search) trainings(c Candidate) []Task {
	var out []Task
	for i := range s.p.Traces {
		out = append(out, s.training(c, i, len(s.ladder)-1))
	}
	return out
}

// sensitivity groups the neighbours by what they change.
func (s *search) sensitivity(winner Candidate, own Score, near []neighbour) []Sensitivity {
	var out []Sensitivity
	for _, n := range near {
		score, ok := s.score(n.Candidate, len(s.ladder)-1)
		if !ok {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Key != n.key {
			out = append(out, Sensitivity{Key: n.key, Value: s.valueOf(winner, n.key)})
		}
		last := &out[len(out)-1]
		value := n.value
		if name, _, _ := strings.Cut(last.Value, "("); value == name && (n.key == placement.KeyPlacer || n.key == placement.KeyT1 || n.key == placement.KeyT2) {
			value += " as it comes" // the same one, without the winner's parameters
		}
		last.Points = append(last.Points, Point{Value: value, Change: s.change(score, own),
			Traffic: ratio(score.traffic, own.traffic) - 1, Excess: score.Excess})
	}
	return out
}

func (s *search) change(score, own Score) float64 {
	if base := own.over(&s.p.Objective); base > 0 {
		return score.over(&s.p.Objective)/base - 1
	}
	return 0
}

// valueOf is what the winner has for a key.
func (s *search) valueOf(c Candidate, key string) string {
	switch key {
	case placement.KeyPlacer:
		return c.Policy.Placer()
	case placement.KeyT1:
		return c.Policy.T1()
	case placement.KeyT2:
		return c.Policy.T2()
	case keySize:
		return s.p.Sizes[c.Size].Name
	}
	for _, set := range c.Policy.Settings() {
		if set.Key == key {
			return set.Value
		}
	}
	return ""
}

// sized is the training of a policy with other frames.
func (s *search) sized(c Candidate, i int, frames [][2]int) Task {
	t := s.training(c, i, len(s.ladder)-1)
	t.GPUFrames, t.HostFrames = frames[i][0], frames[i][1]
	return t
}

// scaledFrames are the frames of c's size with T1 and T2 times factors.
func (s *search) scaledFrames(c Candidate, gpu, host float64) [][2]int {
	out := make([][2]int, len(s.p.Traces))
	for i := range out {
		g, h := s.p.Sizes[c.Size].frames(i)
		out[i] = [2]int{min(max(1, int(float64(g)*gpu)), placement.MaxPages), min(int(float64(h)*host), placement.MaxPages)}
		if h > 0 && host > 0 {
			out[i][1] = max(1, out[i][1])
		}
	}
	return out
}

// refusal says why a policy cannot be built with these frames, "" if it can.
func refusal(policy placement.Spec, frames [][2]int) string {
	for _, f := range frames {
		var small *placement.SizeError
		if _, err := policy.Build(placement.Env{T1Frames: min(f[0], saneFrames), T2Frames: min(f[1], saneFrames)}); errors.As(err, &small) {
			return small.Error()
		} else if err != nil {
			return err.Error()
		}
	}
	return ""
}

// wrongSizes are half and twice of each tier.
func (s *search) wrongSizes(c Candidate) []WrongSize {
	var out []WrongSize
	add := func(what string, gpu, host float64) {
		w := WrongSize{What: what, Frames: s.scaledFrames(c, gpu, host)}
		w.Refuse = refusal(c.Policy, w.Frames)
		out = append(out, w)
	}
	add("half of T1", 0.5, 1)
	add("twice T1", 2, 1)
	if s.hosts(c) {
		add("half of T2", 1, 0.5)
		add("twice T2", 1, 2)
		add("half of both", 0.5, 0.5)
		add("twice both", 2, 2)
		add("no T2", 1, 0)
	}
	return out
}

// hosts says whether there is a T2 at c's size.
func (s *search) hosts(c Candidate) bool {
	for i := range s.p.Traces {
		if _, host := s.p.Sizes[c.Size].frames(i); host > 0 {
			return true
		}
	}
	return false
}

func (s *search) chargeSizes(winner Candidate, own Score, sizes []WrongSize) []WrongSize {
	for k := range sizes {
		if sizes[k].Refuse != "" {
			continue
		}
		task := func(i int) Task { return s.sized(winner, i, sizes[k].Frames) }
		if score, ok := s.scoreOf(0, task, func(i int) Task { return s.training(s.reference(), i, len(s.ladder)-1) }); ok {
			change := s.change(score, own)
			sizes[k].Change = &change
		}
	}
	return sizes
}

// safeTolerance is how much worse than LRU at the same sizes is still safe.
const safeTolerance = 0.05

// halves are the winner's frames, a half of them, a quarter and so on, as long
// as it can be built.
func (s *search) halves(c Candidate) [][][2]int {
	var out [][][2]int
	for f := 1.0; ; f /= 2 {
		frames := s.scaledFrames(c, f, f)
		if refusal(c.Policy, frames) != "" || len(out) > 0 && equalFrames(out[len(out)-1], frames) {
			return out
		}
		out = append(out, frames)
	}
}

func equalFrames(a, b [][2]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (s *search) safeMinimum(winner Candidate, halves [][][2]int) *SafeMinimum {
	m := &SafeMinimum{Tolerance: safeTolerance, BuildsT1: leastFrames(winner.Policy, "T1")}
	if s.hosts(winner) {
		m.BuildsT2 = leastFrames(winner.Policy, "T2")
	}
	for _, frames := range halves {
		if !s.worksAt(winner, frames) {
			m.Fails = frames
			break
		}
		m.Frames = frames
	}
	return m
}

// worksAt says whether the winner is about as good as LRU with these frames.
func (s *search) worksAt(winner Candidate, frames [][2]int) bool {
	for i := range s.p.Traces {
		t, ref := s.sized(winner, i, frames), s.sized(Candidate{lru(), winner.Size}, i, frames)
		m, _ := s.metrics(&t, i, 0)
		r, _ := s.metrics(&ref, i, 0)
		if s.p.Objective.score(m, r) > 1+safeTolerance {
			return false
		}
	}
	return true
}

// leastFrames is the smallest size of a tier that the policy can be built with.
func leastFrames(policy placement.Spec, tier string) int {
	env := placement.Env{T1Frames: saneFrames, T2Frames: saneFrames}
	if tier == "T1" {
		env.T1Frames = 1
	} else {
		env.T2Frames = 1
	}
	var small *placement.SizeError
	if _, err := policy.Build(env); errors.As(err, &small) {
		return small.Min
	}
	return 1
}
