package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/mrc"
)

// Plot writes one picture in a format of Formats: for each trace its curves over
// the size of the tiers. Errors are those of w, or say that there is nothing to
// draw.
func (c *Curves) Plot(w io.Writer, format string) error {
	var figs []figure
	for i := range c.Traces {
		if f, ok := c.Traces[i].figure(); ok {
			figs = append(figs, f)
		}
	}
	switch {
	case len(figs) == 0:
		return errors.New("report: no curves to draw")
	case len(figs) > maxFigures:
		return fmt.Errorf("report: %d traces are too many for one picture (at most %d): draw them in several runs, or use the HTML page", len(figs), maxFigures)
	}
	f := stack(figs)
	switch format {
	case "png":
		return f.png(w)
	case "svg":
		doc, err := f.svg()
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, doc)
		return err
	}
	return fmt.Errorf("report: no picture format %q; formats are %s", format, strings.Join(Formats, ", "))
}

// dotsUpTo is how many points a curve has at most if each is marked: more are a
// line.
const dotsUpTo = 40

// figure draws one trace's curves; false if there is nothing to draw.
func (t *TraceCurves) figure() (figure, bool) {
	var lines []curve
	lo, hi, points := math.Inf(1), 0.0, 0
	for i, c := range t.Curves {
		line := curve{label: t.Labels[i], color: palette[i%len(palette)], dashes: dashesOf(i / len(palette))}
		if c.Bound {
			line.label, line.color, line.dashes = "Belady's bound", ink, []vg.Length{4, 2.5}
		}
		for _, p := range c.Points {
			x := float64(p.Bytes)
			line.points = append(line.points, plotter.XY{X: x, Y: 100 * p.MissRatio})
			lo, hi = min(lo, x), max(hi, x)
		}
		sortByX(line.points)
		points = max(points, len(line.points))
		lines = append(lines, line)
	}
	if hi == 0 {
		return figure{}, false
	}
	partCovered(lines[:t.policies()])
	drawn := lines
	if now := t.now(); now >= lo && now <= hi {
		drawn = append(slices.Clone(lines), curve{label: "what there is", color: muted, dashes: nowDashes, points: nowLine(now, lines)})
	}
	axis := "T1 size"
	if slices.ContainsFunc(t.pairs(), func(p mrc.Pair) bool { return p.Host > 0 }) {
		axis = "T1 + T2 size"
	}
	h := max(curveHeight, curveHead+30+legendStep*vg.Length(len(drawn)+1))
	return figure{w: figureWidth, h: h, draw: func(dc draw.Canvas) {
		t.head(dc)
		sizePanel(draw.Crop(dc, margin, -margin-legendWidth, 6, -curveHead), drawn, axis, lo, hi, points <= dotsUpTo)
		legend(draw.Crop(dc, dc.Max.X-dc.Min.X-legendWidth, -margin, 0, -curveHead), drawn)
	}}, true
}

// nowDashes are those of the line that marks the memory that there is.
var nowDashes = []vg.Length{1.5, 2.5}

// nowLine is that line, as high as the curves.
func nowLine(now float64, lines []curve) plotter.XYs {
	top := 0.0
	for _, l := range lines {
		for _, xy := range l.points {
			top = max(top, xy.Y)
		}
	}
	return plotter.XYs{{X: now, Y: top}, {X: now, Y: 0}}
}

// partCovered dashes a curve that lies on an earlier one over most of its
// length, so that both are seen. Curves all meet at the ends.
func partCovered(lines []curve) {
	for i := range lines {
		below := 0
		for _, other := range lines[:i] {
			same := 0
			for k := range min(len(other.points), len(lines[i].points)) {
				a, b := other.points[k], lines[i].points[k]
				if a.X == b.X && math.Abs(a.Y-b.Y) <= 0.004*max(a.Y, b.Y) {
					same++
				}
			}
			if 2*same > len(lines[i].points) {
				below++
			}
		}
		if below > 0 {
			const period = vg.Length(14)
			on := period / vg.Length(1+min(below, 5))
			lines[i].dashes = []vg.Length{on, period - on}
		}
	}
}

// policies is the number of curves before the bound, which comes last.
func (t *TraceCurves) policies() int {
	for i, c := range t.Curves {
		if c.Bound {
			return i
		}
	}
	return len(t.Curves)
}

// now is the size of the readings in bytes; 0: there are none.
func (t *TraceCurves) now() float64 {
	if len(t.Readings) == 0 {
		return 0
	}
	return float64(t.Readings[0].Now.Bytes)
}

// head writes what a figure is about.
func (t *TraceCurves) head(dc draw.Canvas) {
	title, sub := bold(style(13.5, ink, text.XLeft)), style(10, muted, text.XLeft)
	x, width := dc.Min.X+margin, dc.Max.X-dc.Min.X-2*margin
	dc.FillText(title, vg.Point{X: x, Y: dc.Max.Y - 15}, "SSD reads over the size of the tiers")
	about := Printable(t.info().Name) + ", " + accesses(t.info().Accesses) + "; " + t.precision()
	dc.FillText(sub, vg.Point{X: x, Y: dc.Max.Y - 32}, fit(about, sub, width))
}

// precision says in short how right the curves are.
func (t *TraceCurves) precision() string {
	worst, fewest := 0.0, 0
	for _, c := range t.Curves {
		if c.ExpectedError > worst {
			worst, fewest = c.ExpectedError, c.SampledPages
		}
	}
	if worst == 0 {
		return "exact"
	}
	if fewest < mrc.MinSampled {
		return fmt.Sprintf("estimated from only %s sampled pages: off by %.2g percentage points or more", units.FormatCount(uint64(fewest)), 100*worst)
	}
	return fmt.Sprintf("estimated from %s sampled pages, right to %.2g percentage points on average", units.FormatCount(uint64(fewest)), 100*worst)
}

// sizePanel draws curves over a logarithmic axis of sizes.
func sizePanel(dc draw.Canvas, lines []curve, axis string, lo, hi float64, dots bool) {
	p := plot.New()
	p.BackgroundColor = nil
	axisStyle(&p.X, axis)
	axisStyle(&p.Y, "SSD reads, % of accesses")
	if hi/lo > 4 {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker = plot.ConstantTicks(sizeTicks(lo, hi))
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grid, grid
	g.Vertical.Width, g.Horizontal.Width = 0.7, 0.7
	p.Add(g)
	top := 0.0
	for _, l := range lines {
		if len(l.points) == 0 {
			continue
		}
		p.Add(&plotter.Line{XYs: l.points, LineStyle: draw.LineStyle{Color: l.color, Width: 1.6, Dashes: l.dashes}})
		if dots && l.color != muted || len(l.points) == 1 {
			p.Add(&plotter.Scatter{XYs: l.points, GlyphStyle: draw.GlyphStyle{Color: l.color, Radius: 2, Shape: draw.CircleGlyph{}}})
		}
		for _, xy := range l.points {
			top = max(top, xy.Y)
		}
	}
	p.X.Min, p.X.Max = lo, hi
	if lo == hi { // one size, in the middle
		p.X.Min, p.X.Max = lo*0.99, lo*1.01
	}
	p.Y.Min, p.Y.Max = 0, max(1.04*top, 1e-3)
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Draw(dc)
}

// sizeTicks are powers of two, about six of them, or the ends where there are
// none between.
func sizeTicks(lo, hi float64) (out []plot.Tick) {
	from, to := math.Ceil(math.Log2(lo)-1e-9), math.Floor(math.Log2(hi)+1e-9)
	step := max(1, math.Ceil((to-from)/6))
	if lo == hi {
		return []plot.Tick{{Value: lo, Label: units.FormatBytes(uint64(lo))}}
	}
	if hi/lo <= 4 || from > to {
		for _, v := range []float64{lo, (lo + hi) / 2, hi} {
			out = append(out, plot.Tick{Value: v, Label: units.FormatBytes(uint64(v))})
		}
		return out
	}
	for e := from; e <= to; e += step {
		out = append(out, plot.Tick{Value: math.Exp2(e), Label: units.FormatBytes(uint64(math.Exp2(e)))})
	}
	return out
}
