package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/internal/units"
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
	spread(lines[:t.policies()])
	h := max(curveHeight, curveHead+30+legendStep*vg.Length(len(lines)+1))
	return figure{w: figureWidth, h: h, draw: func(dc draw.Canvas) {
		t.head(dc)
		sizePanel(draw.Crop(dc, margin, -margin-legendWidth, 6, -curveHead), lines, lo, hi, points <= dotsUpTo, t.now())
		legend(draw.Crop(dc, dc.Max.X-dc.Min.X-legendWidth, -margin, 0, -curveHead), lines)
	}}, true
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
	return fmt.Sprintf("estimated from %s sampled pages, right to %.2g %% on average", units.FormatCount(uint64(fewest)), 100*worst)
}

// sizePanel draws curves over a logarithmic axis of sizes.
func sizePanel(dc draw.Canvas, lines []curve, lo, hi float64, dots bool, now float64) {
	p := plot.New()
	p.BackgroundColor = nil
	axisStyle(&p.X, "T1 + T2 size")
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
		if dots || len(l.points) == 1 {
			p.Add(&plotter.Scatter{XYs: l.points, GlyphStyle: draw.GlyphStyle{Color: l.color, Radius: 2, Shape: draw.CircleGlyph{}}})
		}
		for _, xy := range l.points {
			top = max(top, xy.Y)
		}
	}
	p.X.Min, p.X.Max = lo, max(hi, lo*1.01)
	p.Y.Min, p.Y.Max = 0, max(1.04*top, 1e-3)
	if now >= lo && now <= hi {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: now, Y: 0}, {X: now, Y: p.Y.Max}}, LineStyle: draw.LineStyle{Color: muted, Width: 1, Dashes: []vg.Length{1.5, 2.5}}})
	}
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Draw(dc)
}

// sizeTicks are powers of two, about six of them, or the ends where there are
// none between.
func sizeTicks(lo, hi float64) (out []plot.Tick) {
	from, to := math.Ceil(math.Log2(lo)-1e-9), math.Floor(math.Log2(hi)+1e-9)
	step := max(1, math.Ceil((to-from)/6))
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
