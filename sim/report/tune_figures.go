package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/sim/tune"
)

// Measures of the tuner's charts, in points.
const (
	tuneHead  = vg.Length(58)
	tuneRow   = vg.Length(21)
	tuneFoot  = vg.Length(34)
	tuneNames = vg.Length(330) // at most, for policies
	dotRadius = vg.Length(3.6)
)

// strips is a chart of rows over one axis: names at the left, marks at the
// right.
type strips struct {
	title, note string
	names       []string
	lo, hi      float64
	axis        string
	tick        func(v float64) string
	legend      func(c draw.Canvas, x, y vg.Length)
	row         func(c draw.Canvas, s *strips, i int, y vg.Length)

	x0, x1 vg.Length
}

func (s *strips) figure() figure {
	return figure{w: figureWidth, h: tuneHead + tuneRow*vg.Length(len(s.names)) + tuneFoot, draw: s.draw}
}

// at is the place of a value on the axis.
func (s *strips) at(v float64) vg.Length {
	return s.x0 + vg.Length((v-s.lo)/(s.hi-s.lo))*(s.x1-s.x0)
}

func (s *strips) draw(c draw.Canvas) {
	title, sub, name := bold(style(13.5, ink, text.XLeft)), style(10, muted, text.XLeft), style(10, ink, text.XRight)
	left := c.Min.X + margin
	c.FillText(title, vg.Point{X: left, Y: c.Max.Y - 15}, s.title)
	c.FillText(sub, vg.Point{X: left, Y: c.Max.Y - 32}, s.note)
	widest := vg.Length(0)
	for _, n := range s.names {
		widest = max(widest, name.Width(n))
	}
	s.x0 = left + min(widest, tuneNames) + 3*labelGap
	s.x1 = c.Max.X - margin - 30
	top := c.Max.Y - tuneHead
	bottom := top - tuneRow*vg.Length(len(s.names))
	tick := style(9.5, muted, text.XCenter)
	for _, t := range roundTicks(s.lo, s.hi) {
		x := s.at(t.Value)
		line(c, grid, 0.7, nil, x, bottom, x, top)
		c.FillText(tick, vg.Point{X: x, Y: bottom - 9}, s.tickText(t))
	}
	c.FillText(tick, vg.Point{X: (s.x0 + s.x1) / 2, Y: bottom - 24}, s.axis)
	if s.legend != nil {
		s.legend(c, s.x0, c.Max.Y-48)
	}
	for i, n := range s.names {
		y := top - tuneRow*(vg.Length(i)+0.5)
		c.FillText(name, vg.Point{X: s.x0 - 2*labelGap, Y: y}, fit(n, name, s.x0-2*labelGap-left))
		s.row(c, s, i, y)
	}
}

func (s *strips) tickText(t plot.Tick) string {
	if s.tick != nil {
		return s.tick(t.Value)
	}
	return t.Label
}

func dot(c draw.Canvas, col color.Color, x, y vg.Length) {
	c.DrawGlyph(draw.GlyphStyle{Color: col, Radius: dotRadius, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
}

// Colours of the two parts, the same in every chart.
var (
	colorTrain = colorT1
	colorHeld  = colorSSD
)

// mostScore is where larger scores are drawn, with their value: one that is many
// times worse than LRU would press all others together.
const mostScore = 1.5

// scoreFigure shows the finalists in training and held out, and what cannot be
// beaten.
func scoreFigure(t *Tune) (figure, bool) {
	if len(t.Ranking) == 0 {
		return figure{}, false
	}
	s := &strips{title: "Scores of the finalists", note: "relative to LRU in both tiers; lower is better; the best in training on top",
		axis: "score", lo: math.Inf(1), hi: math.Inf(-1)}
	for i := range t.Ranking {
		r := &t.Ranking[i]
		s.names = append(s.names, t.nameOf(r, 60))
		for _, p := range []*tune.Part{&r.Train, &r.HeldOut} {
			s.lo, s.hi = min(s.lo, p.Bound, p.Spread.Min), max(s.hi, p.Spread.Max, p.Bound)
		}
	}
	most := max(mostScore, 1.3*t.over(t.Ranking[0].HeldOut.Score), 1.3*t.over(t.Ranking[0].Train.Score))
	s.hi = min(s.hi, most)
	pad := max(0.04*(s.hi-s.lo), 0.01)
	s.lo, s.hi = max(0, s.lo-pad), s.hi+pad
	s.legend = scoreLegend
	s.row = func(c draw.Canvas, s *strips, i int, y vg.Length) {
		part := func(p *tune.Part, col color.Color, y vg.Length) {
			at := func(v float64) vg.Length { return s.at(min(v, most)) }
			line(c, col, 1.8, nil, at(p.Bound), y-4, at(p.Bound), y+4)
			line(c, col, 1.4, nil, at(p.Spread.Min), y, at(p.Spread.Max), y)
			v := t.over(p.Score)
			dot(c, col, at(v), y)
			if v > most {
				c.FillText(style(8.5, muted, text.XLeft), vg.Point{X: at(v) + 6, Y: y - 1}, fmt.Sprintf("%.3g", v))
			}
		}
		part(&t.Ranking[i].Train, colorTrain, y+4.5)
		part(&t.Ranking[i].HeldOut, colorHeld, y-4.5)
	}
	return s.figure(), true
}

// scoreLegend explains the marks of scoreFigure.
func scoreLegend(c draw.Canvas, x, y vg.Length) {
	sty := style(10, ink, text.XLeft)
	for _, e := range []struct {
		name string
		mark func(x vg.Length)
	}{
		{"training", func(x vg.Length) { dot(c, colorTrain, x+4, y) }},
		{"held out", func(x vg.Length) { dot(c, colorHeld, x+4, y) }},
		{"bound, training", func(x vg.Length) { line(c, colorTrain, 1.8, nil, x+4, y-5, x+4, y+5) }},
		{"bound, held out", func(x vg.Length) { line(c, colorHeld, 1.8, nil, x+4, y-5, x+4, y+5) }},
	} {
		e.mark(x)
		c.FillText(sty, vg.Point{X: x + 13, Y: y}, e.name)
		x += 13 + sty.Width(e.name) + 18
	}
}

// mostChange is where larger changes are drawn: they all mean "do not".
const mostChange = 0.3

// changeFigure shows what each setting of the best policy is worth.
func changeFigure(t *Tune) (figure, bool) {
	s := &strips{title: "Change of the score when one thing changes", note: "in training; a dot is a value, the best and the worst are named; changes above 30 % are drawn at 30 %",
		axis: "change of the score: to the right is worse", tick: percentTick}
	var rows []tune.Sensitivity
	for _, x := range t.Sensitivity {
		if !matters(x) {
			continue
		}
		rows = append(rows, x)
		s.names = append(s.names, fmt.Sprintf("%s (%s)", x.Key, shortValue(x.Value)))
		for _, p := range x.Points {
			s.lo, s.hi = min(s.lo, p.Change), max(s.hi, min(p.Change, mostChange))
		}
	}
	if len(rows) == 0 {
		return figure{}, false
	}
	// Names stand beside the outermost dots.
	pad := max(0.16*(s.hi-s.lo), 0.002)
	s.lo, s.hi = s.lo-pad, s.hi+pad
	s.row = func(c draw.Canvas, s *strips, i int, y vg.Length) {
		line(c, muted, 1, nil, s.at(0), y-tuneRow/2, s.at(0), y+tuneRow/2)
		best := slices.MinFunc(rows[i].Points, func(a, b tune.Point) int { return compare(a.Change, b.Change) })
		worst := slices.MaxFunc(rows[i].Points, func(a, b tune.Point) int { return compare(a.Change, b.Change) })
		for _, p := range rows[i].Points {
			dot(c, colorTrain, s.at(min(p.Change, mostChange)), y)
		}
		left, right := style(8.5, muted, text.XRight), style(8.5, muted, text.XLeft)
		c.FillText(left, vg.Point{X: min(s.at(best.Change), s.at(0)) - 7, Y: y}, best.Value)
		if worst.Value != best.Value {
			label := worst.Value
			if worst.Change > mostChange {
				label += " " + signed(worst.Change)
			}
			x := s.at(min(worst.Change, mostChange)) + 7
			c.FillText(right, vg.Point{X: x, Y: y}, fit(label, right, c.Max.X-x-2))
		}
	}
	return s.figure(), true
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func percentTick(v float64) string {
	p := math.Round(1e4*v) / 100
	if p == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.3g %%", p)
}

// sizeFigure shows what wrong sizes cost.
func sizeFigure(t *Tune) (figure, bool) {
	s := &strips{title: "Change of the score when the tiers are not as assumed", note: "the best policy in training",
		axis: "change of the score: to the right is worse", tick: percentTick}
	var changes []float64
	for _, w := range t.WrongSizes {
		if w.Change == nil {
			continue
		}
		changes = append(changes, *w.Change)
		s.names = append(s.names, w.What)
		s.lo, s.hi = min(s.lo, *w.Change), max(s.hi, *w.Change)
	}
	if len(changes) == 0 {
		return figure{}, false
	}
	pad := max(0.12*(s.hi-s.lo), 0.002)
	s.lo, s.hi = s.lo-pad, s.hi+pad
	s.row = func(c draw.Canvas, s *strips, i int, y vg.Length) {
		col := colorTime
		if changes[i] > 0 {
			col = colorSSD
		}
		fillRect(c, col, s.at(0), y-6, s.at(changes[i]), y+6)
		line(c, muted, 1, nil, s.at(0), y-tuneRow/2, s.at(0), y+tuneRow/2)
		align, x := text.XLeft, s.at(changes[i])+5
		if changes[i] < 0 {
			align, x = text.XRight, s.at(changes[i])-5
		}
		c.FillText(style(9.5, ink, align), vg.Point{X: x, Y: y}, signed(changes[i]))
	}
	return s.figure(), true
}
