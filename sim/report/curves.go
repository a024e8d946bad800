package report

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
)

// palette tells policies apart in curves, on light and on dark paper.
var palette = []color.RGBA{
	{0x2f, 0x7a, 0xc4, 0xff}, {0xe0, 0x7b, 0x39, 0xff}, {0x3a, 0x9b, 0x5c, 0xff}, {0xc4, 0x4e, 0x52, 0xff}, {0x86, 0x6a, 0xc0, 0xff},
	{0x9a, 0x6b, 0x4f, 0xff}, {0xd0, 0x6f, 0xb0, 0xff}, {0x80, 0x88, 0x8c, 0xff}, {0xa8, 0xa1, 0x2b, 0xff}, {0x2a, 0xa5, 0xb5, 0xff},
}

// Measures of the curves, in points.
const (
	curveHeight = vg.Length(340)
	curveHead   = vg.Length(50)
	legendWidth = vg.Length(190)
	legendStep  = vg.Length(16)
)

// curve is one policy's values over the sizes, or the bound's.
type curve struct {
	label  string
	color  color.RGBA
	dashes []vg.Length
	ring   vg.Length // radius of a ring around each point; 0: a dot
	points plotter.XYs
}

// curves draws one trace's quantities over the sizes of the tiers.
type curves struct {
	group *traceGroup
	sizes []float64 // bytes, parallel to group.sizes
	axis  string
}

// curveFigure is the figure of one trace with several sizes.
func curveFigure(g *traceGroup) figure {
	c := &curves{group: g}
	c.sizes, c.axis = sizeAxis(g)
	h := max(curveHeight, curveHead+30+legendStep*vg.Length(len(c.collect(readPercent))+1))
	return figure{w: figureWidth, h: h, draw: c.draw}
}

// sizeAxis chooses what tells the sizes apart: the sum, or one tier.
func sizeAxis(g *traceGroup) (sizes []float64, name string) {
	choices := []struct {
		name string
		of   func(s sizeGroup) int
	}{
		{"T1 + T2 size", func(s sizeGroup) int { return s.gpu + s.host }},
		{"T1 size", func(s sizeGroup) int { return s.gpu }},
		{"T2 size", func(s sizeGroup) int { return s.host }},
	}
	if !slices.ContainsFunc(g.sizes, func(s sizeGroup) bool { return s.host > 0 }) {
		choices = choices[1:]
	}
	for _, c := range choices {
		sizes = sizes[:0]
		for _, s := range g.sizes {
			sizes = append(sizes, float64(c.of(s))*float64(g.info.PageSize))
		}
		sorted := slices.Sorted(slices.Values(sizes))
		if len(slices.Compact(sorted)) == len(sizes) {
			return sizes, c.name
		}
	}
	return sizes, choices[0].name
}

// readPercent is the quantity of the left panel, that which the bound bounds.
func readPercent(r *sim.Result) (float64, bool) {
	if r.Accesses == 0 {
		return 0, r.Complete
	}
	return 100 * float64(r.SSDReads) / float64(r.Accesses), r.Complete
}

// boundPercent is the least possible readPercent.
func boundPercent(r *sim.Result) (float64, bool) {
	if r.BoundReads == nil || r.Accesses == 0 {
		return 0, false
	}
	return 100 * float64(*r.BoundReads) / float64(r.Accesses), true
}

// modelledTime is the quantity of the right panel.
func modelledTime(r *sim.Result) (float64, bool) {
	if r.ModelledSeconds == nil || !r.Complete {
		return 0, false
	}
	return *r.ModelledSeconds, true
}

// collect makes one curve for each policy, in order of appearance.
func (c *curves) collect(value func(*sim.Result) (float64, bool)) []curve {
	var out []curve
	at := map[string]int{}
	for i, s := range c.group.sizes {
		for _, r := range s.rows {
			k, ok := at[r.label]
			if !ok {
				k = len(out)
				at[r.label] = k
				out = append(out, curve{label: r.label, color: palette[k%len(palette)], dashes: dashesOf(k / len(palette))})
			}
			if v, ok := value(r.Result); ok {
				out[k].points = append(out[k].points, plotter.XY{X: c.sizes[i], Y: v})
			}
		}
	}
	for _, cv := range out {
		sortByX(cv.points)
	}
	spread(out)
	return out
}

// spread makes curves that lie on one another visible: each one after the
// first is dashed, more sparsely than those below it, and has wider rings for
// points.
func spread(lines []curve) {
	for i := range lines {
		below := 0
		for _, other := range lines[:i] {
			if meet(other.points, lines[i].points) {
				below++
			}
		}
		if below == 0 {
			continue
		}
		const period = vg.Length(14)
		on := period / vg.Length(1+min(below, 5))
		lines[i].dashes = []vg.Length{on, period - on}
		lines[i].ring = 2.6 + 1.3*vg.Length(min(below, 6))
	}
}

// alike gives each curve the same look in both panels, for the legend's sake.
func alike(a, b []curve) {
	for i := range a {
		if b[i].ring > a[i].ring {
			a[i].dashes, a[i].ring = b[i].dashes, b[i].ring
		} else {
			b[i].dashes, b[i].ring = a[i].dashes, a[i].ring
		}
	}
}

// meet says whether curves share a stretch: two points in a row, or the only
// one.
func meet(a, b plotter.XYs) bool {
	n, run := min(len(a), len(b)), 0
	for i := range n {
		if a[i].X == b[i].X && math.Abs(a[i].Y-b[i].Y) <= 0.004*max(a[i].Y, b[i].Y) {
			run++
		} else {
			run = 0
		}
		if run == 2 || run == n {
			return true
		}
	}
	return false
}

// dashesOf tells curves apart when the palette is used up.
func dashesOf(round int) []vg.Length {
	if round == 0 {
		return nil
	}
	return []vg.Length{vg.Length(2 + 2*round), 2}
}

func sortByX(p plotter.XYs) {
	slices.SortStableFunc(p, func(a, b plotter.XY) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
}

// bound is the curve below which no policy gets.
func (c *curves) bound() curve {
	out := curve{label: "Belady's bound", color: ink, dashes: []vg.Length{4, 2.5}}
	for i, s := range c.group.sizes {
		for _, r := range s.rows {
			if v, ok := boundPercent(r.Result); ok {
				out.points = append(out.points, plotter.XY{X: c.sizes[i], Y: v})
				break
			}
		}
	}
	sortByX(out.points)
	return out
}

func (c *curves) draw(dc draw.Canvas) {
	title, sub := bold(style(13.5, ink, text.XLeft)), style(10, muted, text.XLeft)
	x := dc.Min.X + margin
	dc.FillText(title, vg.Point{X: x, Y: dc.Max.Y - 15}, "SSD reads over the size of the tiers")
	about := Printable(c.group.info.Name) + ", " + accesses(c.group.info.Accesses)
	dc.FillText(sub, vg.Point{X: x, Y: dc.Max.Y - 32}, fit(about, sub, dc.Max.X-dc.Min.X-2*margin))
	lines, times := c.collect(readPercent), c.collect(modelledTime)
	alike(lines, times)
	if b := c.bound(); len(b.points) > 0 {
		lines = append(lines, b)
	}
	body := draw.Crop(dc, margin, -margin-legendWidth, 6, -curveHead)
	if !slices.ContainsFunc(times, func(t curve) bool { return len(t.points) > 0 }) {
		c.panel(body, lines, "SSD reads, % of accesses")
	} else {
		const gap = vg.Length(16)
		half := (body.Max.X - body.Min.X - gap) / 2
		c.panel(draw.Crop(body, 0, -half-gap, 0, 0), lines, "SSD reads, % of accesses")
		times, unit := inUnit(times)
		c.panel(draw.Crop(body, half+gap, 0, 0, 0), times, "modelled "+unit+", not measured")
	}
	legend(draw.Crop(dc, dc.Max.X-dc.Min.X-legendWidth, -margin, 0, -curveHead), lines)
}

// inUnit gives curves of seconds in the unit that suits the longest time.
func inUnit(lines []curve) ([]curve, string) {
	longest := 0.0
	for _, l := range lines {
		for _, p := range l.points {
			longest = max(longest, p.Y)
		}
	}
	u := unitOf(longest)
	if longest == 0 {
		u = timeUnits[0]
	}
	out := slices.Clone(lines)
	for i, l := range lines {
		out[i].points = slices.Clone(l.points)
		for k := range l.points {
			out[i].points[k].Y *= u.per
		}
	}
	return out, u.name
}

// panel draws one quantity.
func (c *curves) panel(dc draw.Canvas, lines []curve, label string) {
	p := plot.New()
	p.BackgroundColor = nil
	axisStyle(&p.X, c.axis)
	axisStyle(&p.Y, label)
	p.X.Tick.Marker = plot.ConstantTicks(c.ticks())
	lo, hi := slices.Min(c.sizes), slices.Max(c.sizes)
	if lo > 0 && hi/lo > 4 {
		p.X.Scale = plot.LogScale{}
	}
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grid, grid
	g.Vertical.Width, g.Horizontal.Width = 0.7, 0.7
	p.Add(g)
	for _, l := range lines {
		if len(l.points) == 0 {
			continue
		}
		p.Add(&plotter.Line{XYs: l.points, LineStyle: draw.LineStyle{Color: l.color, Width: 1.6, Dashes: l.dashes}})
		glyph := draw.GlyphStyle{Color: l.color, Radius: 2.2, Shape: draw.CircleGlyph{}}
		if l.ring > 0 {
			glyph.Radius, glyph.Shape = l.ring, draw.RingGlyph{}
		}
		p.Add(&plotter.Scatter{XYs: l.points, GlyphStyle: glyph})
	}
	p.Y.Min, p.Y.Max = 0, 1.04*p.Y.Max // the highest point stays clear of the edge
	if p.Y.Max <= 0 || math.IsInf(p.Y.Max, 0) {
		p.Y.Max = 1
	}
	p.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	p.Draw(dc)
}

// ticks labels the sizes themselves, leaving out those too close to read.
func (c *curves) ticks() []plot.Tick {
	sorted := slices.Sorted(slices.Values(c.sizes))
	lo, hi := sorted[0], sorted[len(sorted)-1]
	place := func(v float64) float64 {
		if lo > 0 && hi/lo > 4 {
			return math.Log(v/lo) / math.Log(hi/lo)
		}
		return (v - lo) / max(hi-lo, 1)
	}
	const apart = 0.2 // of the axis: the width of a label in the narrow panel
	var out []plot.Tick
	last := math.Inf(-1)
	for i, v := range sorted {
		t := plot.Tick{Value: v}
		if x := place(v); x-last >= apart && (i == len(sorted)-1 || 1-x >= apart || x == 0) || i == len(sorted)-1 && x-last > apart/2 {
			t.Label, last = units.FormatBytes(uint64(v)), x
		}
		out = append(out, t)
	}
	return out
}

// roundTicks marks about six round values between lo and hi.
func roundTicks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/6)))
	for _, f := range []float64{2, 2.5, 2} { // 1, 2, 5, 10 times a power of ten
		if (hi-lo)/step <= 6 {
			break
		}
		step *= f
	}
	var out []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ { // at most 7 rounds
		out = append(out, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 4, 64)})
	}
	return out
}

func axisStyle(a *plot.Axis, label string) {
	a.Label.Text = label
	a.Label.TextStyle = style(10, muted, text.XCenter)
	a.Label.TextStyle.YAlign = text.YBottom
	a.Color, a.Tick.Color = muted, muted
	a.Width, a.Tick.Width = 0.7, 0.7
	a.Tick.Length = 4
	ticks := a.Tick.Label
	a.Tick.Label = style(9.5, muted, ticks.XAlign)
	a.Tick.Label.YAlign = ticks.YAlign
}

// legend lists the curves with the worst at the last size on top, as the eye
// meets them in the panel.
func legend(c draw.Canvas, lines []curve) {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(a, b curve) int {
		switch x, y := lastY(a), lastY(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	sty := style(10, ink, text.XLeft)
	y := c.Max.Y - 8
	for _, l := range sorted {
		line(c, l.color, 2, l.dashes, c.Min.X+4, y, c.Min.X+24, y)
		c.FillText(sty, vg.Point{X: c.Min.X + 30, Y: y}, fit(l.label, sty, c.Max.X-c.Min.X-30))
		y -= legendStep
	}
}

func lastY(c curve) float64 {
	if len(c.points) == 0 {
		return math.Inf(-1)
	}
	return c.points[len(c.points)-1].Y
}
