package report

import (
	"bufio"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/sim/tune"
)

// perTrace is the winner on each of several traces.
func (t *Tune) perTrace(b *bufio.Writer) {
	best := t.Winner()
	if t.Interrupted || len(t.Traces) < 2 {
		return
	}
	fmt.Fprintf(b, "\nthe best policy, trace by trace\n")
	lines := [][]string{{"trace", "train", "held out", "over bound"}}
	for i := range t.Traces {
		held := &best.HeldOut.Traces[i]
		over := none
		if v, ok := held.OverBound(); ok {
			over = fmt.Sprintf("%+.1f %%", 100*v)
		}
		lines = append(lines, []string{Printable(t.Traces[i].Name), score(best.Train.Traces[i].Score), score(held.Score), over})
	}
	lines = append(lines, []string{"mean", score(best.Train.Score.Mean), score(best.HeldOut.Score.Mean), ""},
		[]string{"worst", score(best.Train.Score.Worst), score(best.HeldOut.Score.Worst), ""})
	widths := columnWidths(lines)
	for _, l := range lines {
		writeLine(b, l, widths)
	}
}

// examined is what changes about the winner cost.
func (t *Tune) examined(b *bufio.Writer) {
	if len(t.Sensitivity) > 0 {
		fmt.Fprintf(b, "\nsensitivity: change of the score in training when one thing about the best policy changes;\n")
		fmt.Fprintf(b, "in parentheses that of the SSD traffic, where only this differs by 1 %% or more\n")
	}
	var idle []string
	for _, s := range t.Sensitivity {
		if !matters(s) {
			idle = append(idle, s.Key)
			continue
		}
		head := fmt.Sprintf("  %-12s %-10s ", s.Key, shortValue(s.Value))
		fmt.Fprintf(b, "%s%s\n", head, wrapped(pointTexts(s), utf8.RuneCountInString(head)))
	}
	if len(idle) > 0 {
		const head = "  these make less than 0.05 % in score and 1 % in traffic: "
		fmt.Fprintf(b, "%s%s\n", head, wrapped(idle, 4))
	}
	if len(t.WrongSizes) > 0 {
		fmt.Fprintf(b, "\nwrong sizes: change of the score in training when the tiers are not as assumed\n")
	}
	for _, w := range t.WrongSizes {
		fmt.Fprintf(b, "  %-14s %s\n", w.What, changeText(w))
	}
	if m := t.SafeMinimum; m != nil {
		fmt.Fprintf(b, "\nsafe minimum\n")
		for _, s := range t.minimum() {
			fmt.Fprintf(b, "  %s\n", s)
		}
	}
}

func changeText(w tune.WrongSize) string {
	if w.Change == nil {
		return "cannot be built: " + w.Refuse
	}
	return signed(*w.Change)
}

// signed writes a change in per cent; nothing is +0.0.
func signed(change float64) string {
	return fmt.Sprintf("%+.1f %%", math.Round(1000*change)/10+0) // plus 0: not -0
}

// shortValue is a value without an evictor's parameters.
func shortValue(v string) string {
	name, _, _ := strings.Cut(v, "(")
	return name
}

// pointTexts are the other values with their changes, the best first.
func pointTexts(s tune.Sensitivity) []string {
	points := slices.Clone(s.Points)
	slices.SortStableFunc(points, func(a, b tune.Point) int {
		switch {
		case a.Change < b.Change:
			return -1
		case a.Change > b.Change:
			return 1
		}
		return 0
	})
	var out []string
	for _, p := range points {
		text := p.Value + " " + signed(p.Change)
		if math.Abs(p.Change) < sameScore && math.Abs(p.Traffic) >= sameTraffic {
			text += fmt.Sprintf(" (%+.0f %%)", 100*p.Traffic)
		}
		out = append(out, text)
	}
	return out
}

// Changes below these are none.
const (
	sameScore   = 0.0005
	sameTraffic = 0.01
)

// matters says whether any value of a setting makes a difference.
func matters(s tune.Sensitivity) bool {
	return slices.ContainsFunc(s.Points, func(p tune.Point) bool {
		return math.Abs(p.Change) >= sameScore || math.Abs(p.Traffic) >= sameTraffic
	})
}

// wrapped joins texts to lines of a terminal's width, indented but the first.
func wrapped(texts []string, indent int) string {
	const width = 118
	var b strings.Builder
	at := indent
	for i, s := range texts {
		if i > 0 {
			s = ", " + s
		}
		n := utf8.RuneCountInString(s)
		if at+n > width && i > 0 {
			b.WriteString(",\n" + strings.Repeat(" ", indent))
			s = s[2:]
			n, at = n-2, indent
		}
		b.WriteString(s)
		at += n
	}
	return b.String()
}

// minimum is the safe minimum in sentences.
func (t *Tune) minimum() []string {
	m := t.SafeMinimum
	builds := "the policy can be built with " + counted(uint64(m.BuildsT1), "frame") + " in T1"
	if m.BuildsT2 > 0 {
		builds += fmt.Sprintf(" and %d in T2", m.BuildsT2)
	}
	within := fmt.Sprintf("within %.0f %% of LRU at the same sizes", 100*m.Tolerance)
	switch {
	case m.Frames == nil:
		return []string{"none: already at the chosen sizes it is not " + within + ", on some trace", builds}
	case m.Fails == nil:
		return []string{t.framesList(m.Frames), "down to there, the smallest sizes tried, it is " + within, builds}
	}
	return []string{t.framesList(m.Frames), "down to there it is " + within + "; at half of these sizes not", builds}
}

// framesList is sizes for every trace, once where they are the same.
func (t *Tune) framesList(frames [][2]int) string {
	var out []string
	for i, f := range frames {
		text := framesText(f, t.Traces[i].PageSize)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, " / ")
}
