package report

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/tune"
)

// ranking is the table of the finalists.
func (t *Tune) ranking(b *bufio.Writer) {
	title := "ranking by the score in training"
	if t.Interrupted {
		title += ", so far"
	}
	fmt.Fprintf(b, "\n%s\n", title)
	lines := t.rankingLines(maxPolicyName)
	lines = lines[:min(len(lines), maxRanked+1)]
	for i := range lines {
		number := ""
		if i > 0 {
			number = fmt.Sprint(i)
		}
		lines[i][0] = fmt.Sprintf("%2s  %s", number, lines[i][0])
	}
	widths := columnWidths(lines)
	for _, l := range lines {
		writeLine(b, l, widths)
	}
	if t.Interrupted {
		return
	}
	fmt.Fprintln(b, "  +/-: half the range over runs with different seeds; miniature: the range of the score on the largest miniatures,")
	fmt.Fprintln(b, "  over seeds of sampling; bound: no policy can be below; over bound: SSD reads over the fewest possible, held out;")
	fmt.Fprintln(b, "  * a placer as it comes, for comparison; ! breaks a constraint")
}

// maxRanked bounds the lines of an interrupted run's ranking.
const maxRanked = 32

// rankingLines are the cells of the ranking, its head first, with names cut to
// limit.
func (t *Tune) rankingLines(limit int) [][]string {
	if t.Interrupted {
		lines := [][]string{{"policy", "train", "evaluated on"}}
		for i := range t.Ranking {
			r := &t.Ranking[i]
			on := "whole traces"
			if rate := slices.Min(t.Rungs[r.Rung].Rates); rate < 1 {
				on = fmt.Sprintf("1/%.3g", 1/rate)
			}
			lines = append(lines, []string{t.nameOf(r, limit), score(t.over(r.Train.Score)), on})
		}
		return lines
	}
	head := []string{"policy", "train", "+/-", "bound", "held out", "+/-", "bound", "over bound"}
	if t.Ranking[0].Miniature != nil {
		head = append(head, "miniature")
	}
	lines := [][]string{head}
	for i := range t.Ranking {
		r := &t.Ranking[i]
		cells := []string{t.nameOf(r, limit), score(t.over(r.Train.Score)), halfRange(r.Train.Spread), score(r.Train.Bound),
			score(t.over(r.HeldOut.Score)), halfRange(r.HeldOut.Spread), score(r.HeldOut.Bound), meanOverBound(&r.HeldOut)}
		if m := r.Miniature; m != nil {
			cells = append(cells, fmt.Sprintf("%.3f-%.3f", m.Min, m.Max))
		}
		lines = append(lines, cells)
	}
	return lines
}

func (t *Tune) over(s tune.Score) float64 {
	if t.Objective.Worst {
		return s.Worst
	}
	return s.Mean
}

// nameOf is a candidate for people: its policy without what is at its default,
// cut so that all of it has at most limit characters; 0: not cut.
func (t *Tune) nameOf(r *tune.Ranked, limit int) string {
	rest := ""
	if len(t.Sizes) > 1 {
		rest += " at " + Printable(t.Sizes[r.Size].Name)
	}
	if r.Default {
		rest += " *"
	}
	if r.Train.Score.Excess > 0 {
		rest += " !"
	}
	name := Brief(r.Policy)
	if limit > 0 {
		name = shorten(name, max(limit-utf8.RuneCountInString(rest), 12))
	}
	return name + rest
}

// maxPolicyName keeps the ranking within a terminal of 120 columns.
const maxPolicyName = 44

// inFull lists the ranking's policies as --policy takes them.
func (t *Tune) inFull(b *bufio.Writer) {
	fmt.Fprintf(b, "\npolicies in full\n")
	for i := range t.Ranking[:min(len(t.Ranking), maxRanked)] {
		fmt.Fprintf(b, "%2d  %s\n", i+1, t.Ranking[i].Policy)
	}
}

// Brief is a policy without the settings that are at their default, which
// parses to the same one. A text that is no policy stays as it is.
func Brief(policy string) string {
	spec, err := placement.Parse(policy)
	if err != nil || strings.HasPrefix(policy, "@") {
		return Printable(policy)
	}
	parts := map[string][]string{}
	for _, s := range spec.Settings() {
		if s.Value == s.Default {
			continue
		}
		owner, name, found := strings.Cut(s.Key, ".")
		if !found {
			owner, name = "", s.Key
		}
		parts[owner] = append(parts[owner], name+"="+s.Value)
	}
	evictor := func(tier, full string) string {
		name, _, _ := strings.Cut(full, "(")
		if len(parts[tier]) > 0 {
			name += "(" + strings.Join(parts[tier], ",") + ")"
		}
		return tier + "=" + name
	}
	inside := append([]string{evictor(placement.KeyT1, spec.T1()), evictor(placement.KeyT2, spec.T2())}, parts[""]...)
	return spec.Placer() + "{" + strings.Join(inside, ",") + "}"
}

func score(v float64) string { return fmt.Sprintf("%.4f", v) }

func halfRange(r tune.Range) string {
	if r.Max == r.Min {
		return "0"
	}
	return fmt.Sprintf("%.4f", (r.Max-r.Min)/2)
}

// meanOverBound is by how much SSD reads exceed the bounds, over all traces.
func meanOverBound(p *tune.Part) string {
	reads, bound := 0.0, 0.0
	for i := range p.Traces {
		reads += p.Traces[i].SSDReads
		bound += p.Traces[i].BoundSSDReads
	}
	if bound == 0 {
		return none
	}
	return fmt.Sprintf("%+.1f %%", 100*(reads/bound-1))
}
