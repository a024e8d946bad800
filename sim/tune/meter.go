package tune

// meter says how much of a search is done. What is still to come is reckoned
// from the plan, stage by stage.
type meter struct {
	tell  func(stage string, done, total float64)
	rest  []step
	done  float64
	stage float64 // done within the stage
}

// step is a stage of the plan.
type step struct {
	name string
	cost float64
}

func (m *meter) add(cost float64) {
	m.done += cost
	m.stage += cost
	if m.tell == nil || len(m.rest) == 0 {
		return
	}
	total := m.done + max(m.rest[0].cost-m.stage, 0)
	for _, s := range m.rest[1:] {
		total += s.cost
	}
	m.tell(m.rest[0].name, m.done, total)
}

// next begins the next stage.
func (m *meter) next() {
	m.stage = 0
	if len(m.rest) > 1 {
		m.rest = m.rest[1:]
	}
}

// plan is what a search will about cost.
func (s *search) plan() []step {
	var out []step
	n := float64(s.p.Candidates)
	last := len(s.ladder) - 1
	var whole, training float64
	for i, r := range s.ladder {
		var cost float64
		for t, rate := range r {
			cost += rate * float64(s.p.Traces[t].Train)
		}
		training = cost
		many := n
		if i >= last-1 {
			many += beam * usualNeighbour
		}
		name := "miniatures"
		if r.full() {
			name = "whole traces"
		}
		out = append(out, step{name, many * cost})
		n = max(keepAtLeast, n/keepShare)
	}
	for _, in := range s.p.Traces {
		whole += float64(len(in.Trace.Accesses))
	}
	return append(out, step{"finalists", float64(s.p.Finalists*2) * whole}, step{"sensitivity", usualNeighbour / 2 * training})
}
