package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/timed"
)

// Measures of the picture, in points.
const (
	curveWidth  = vg.Length(360)
	curveHeight = vg.Length(236)
	curveHead   = vg.Length(66)
	curveMargin = vg.Length(16)
	curveGap    = vg.Length(14)
)

// drawCurves draws one panel a curve, at most two in a row.
func drawCurves(w io.Writer, format string, f *curveFlags, curves []curve) error {
	curves = worthDrawing(curves)
	columns := min(len(curves), 2)
	rows := (len(curves) + 1) / 2
	width := vg.Length(columns)*curveWidth + vg.Length(columns-1)*curveGap
	paths := pathsOf(curves)
	entries := curveLegend(f, curves, paths, width)
	head := curveHead - entries[len(entries)-1].at.Y
	c := chart{w: 2*curveMargin + width, h: head + vg.Length(rows)*(curveHeight+curveGap)}
	c.draw = func(dc draw.Canvas) {
		drawCurveHead(draw.Crop(dc, curveMargin, -curveMargin, 0, 0), f, entries)
		for i := range curves {
			cell := dc
			cell.Min.X = dc.Min.X + curveMargin + vg.Length(i%2)*(curveWidth+curveGap)
			cell.Max.X = cell.Min.X + curveWidth
			cell.Max.Y = dc.Max.Y - head - vg.Length(i/2)*(curveHeight+curveGap)
			cell.Min.Y = cell.Max.Y - curveHeight
			drawCurve(cell, f, &curves[i], paths)
		}
	}
	return c.write(w, format)
}

// worthDrawing leaves out panels of one place, such as one drive, if others remain.
func worthDrawing(curves []curve) (out []curve) {
	for _, c := range curves {
		if xs := places(&c); len(xs) > 1 {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return curves
	}
	return out
}

// places are the points' places on the horizontal axis.
func places(c *curve) (at []float64) {
	for i := range c.points {
		at = append(at, curveX(c.over, &c.points[i]))
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// pathsOf lists the paths of all panels in order of appearance.
func pathsOf(curves []curve) (paths []string) {
	for _, c := range curves {
		for _, p := range c.points {
			if !slices.Contains(paths, p.Path) {
				paths = append(paths, p.Path)
			}
		}
	}
	return paths
}

// inRequests says whether the vertical axis counts requests, not bytes.
func inRequests(f *curveFlags, c *curve) bool { return c.over != overSize || f.iops }

// requestScale makes the numbers of the axis short.
func requestScale(c *curve) (scale float64, unit string) {
	most := 0.0
	for i := range c.points {
		most = max(most, c.points[i].IOPS)
	}
	if most < 1e6 {
		return 1e3, "thousand requests/s"
	}
	return 1e6, "million requests/s"
}

// drawCurve is one panel.
func drawCurve(dc draw.Canvas, f *curveFlags, c *curve, paths []string) {
	iops, scale, unit := inRequests(f, c), 1e9, "GB/s"
	if iops {
		scale, unit = requestScale(c)
	}
	head := chartBold(chartText(10.5, chartInk, text.XLeft))
	dc.FillText(head, vg.Point{X: dc.Min.X + 4, Y: dc.Max.Y - 7}, chartFit(curveTitle(f, c), head, curveWidth-8))
	p := plot.New()
	p.BackgroundColor = nil
	xLabel := map[string]string{overSize: "request size", overDrives: "drives", overInFlight: "requests in flight"}[c.over]
	chartAxis(&p.X, xLabel)
	chartAxis(&p.Y, unit)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = chartGrid, chartGrid
	grid.Vertical.Width, grid.Horizontal.Width = 0.7, 0.7
	p.Add(grid)
	for i, path := range paths {
		look := curveLook[i%len(curveLook)]
		if xys := curvePoints(c, path, iops, scale); len(xys) > 0 {
			p.Add(&plotter.Line{XYs: xys, LineStyle: draw.LineStyle{Color: look.color, Width: 1.6, Dashes: look.dashes}},
				&plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: look.color, Radius: 2.6, Shape: look.shape}})
		}
	}
	curveAxes(p, c)
	if !iops {
		addCurveLinks(p, c)
	}
	p.Y.Min, p.Y.Max = 0, max(1e-9, 1.08*p.Y.Max)
	p.Y.Tick.Marker = plot.TickerFunc(chartRoundTicks)
	p.Draw(draw.Crop(dc, 0, 0, 0, -16))
}

// curveTitle says what is the same for all points.
func curveTitle(f *curveFlags, c *curve) string {
	s := c.model.Name
	if c.over != overSize {
		s += ", " + units.ExactBytes(uint64(f.size))
	}
	if f.inFlight > 0 && c.over != overInFlight {
		s += fmt.Sprintf(", %d in flight", f.inFlight)
	}
	if f.drives > 0 && c.over != overDrives {
		s += ", " + plural(uint64(f.drives), "drive")
	}
	return s
}

// curveX is a point's place on the horizontal axis, powers of two of sizes and
// requests.
func curveX(over string, m *timed.Measurement) float64 {
	switch over {
	case overDrives:
		return float64(m.Drives)
	case overInFlight:
		return math.Log2(float64(m.InFlight))
	}
	return math.Log2(float64(m.Size))
}

func curvePoints(c *curve, path string, iops bool, scale float64) (xys plotter.XYs) {
	for i := range c.points {
		m := &c.points[i]
		if m.Path != path {
			continue
		}
		y := m.BytesPerSecond
		if iops {
			y = m.IOPS
		}
		xys = append(xys, plotter.XY{X: curveX(c.over, m), Y: y / scale})
	}
	return xys
}

// curveAxes marks the values that were run, at most eight with their names.
func curveAxes(p *plot.Plot, c *curve) {
	names := map[float64]string{}
	for i := range c.points {
		m := &c.points[i]
		x := curveX(c.over, m)
		switch c.over {
		case overSize:
			names[x] = units.ExactBytes(m.Size)
		case overDrives:
			names[x] = fmt.Sprint(m.Drives)
		default:
			names[x] = units.FormatCount(uint64(m.InFlight))
		}
	}
	at := places(c)
	every := (len(at) + 7) / 8
	var ticks []plot.Tick
	for i, x := range at {
		t := plot.Tick{Value: x}
		if i%every == 0 {
			t.Label = names[x]
		}
		ticks = append(ticks, t)
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	if len(at) > 0 {
		p.X.Min, p.X.Max = at[0]-0.2, at[len(at)-1]+0.2
	}
}

// nearLinks are the narrowest links of the paths that are near their curves, in
// GB/s.
func nearLinks(c *curve) map[float64]string {
	highest := 0.0
	for i := range c.points {
		highest = max(highest, c.points[i].BytesPerSecond/1e9)
	}
	out := map[float64]string{}
	for _, path := range pathsOf([]curve{*c}) {
		by, _, _, err := c.model.By(path)
		if err != nil {
			continue // its points are there, so it is not unknown
		}
		least, name := math.Inf(1), ""
		links := by.Drives.Read.Links
		if c.points[0].Write {
			links = by.Drives.Write.Links
		}
		for _, l := range links {
			if rate := by.Links[l].Bandwidth.Value / 1e9; rate < least {
				least, name = rate, l
			}
		}
		if least <= 1.3*highest {
			out[least] = name
		}
	}
	return out
}

// addCurveLinks draws these links with their names.
func addCurveLinks(p *plot.Plot, c *curve) {
	links := nearLinks(c)
	for _, rate := range slices.Sorted(maps.Keys(links)) {
		name := links[rate]
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: rate}, {X: p.X.Max, Y: rate}},
			LineStyle: draw.LineStyle{Color: chartMuted, Width: 1.1, Dashes: linkDashes}})
		style := chartText(8.5, chartMuted, text.XRight)
		style.YAlign = text.YBottom
		p.Add(&plotter.Labels{XYs: plotter.XYs{{X: p.X.Max, Y: rate}}, Labels: []string{fmt.Sprintf("%s, %.3g GB/s", name, rate)},
			TextStyle: []text.Style{style}, Offset: vg.Point{X: -4, Y: 4}})
		p.Y.Max = max(p.Y.Max, rate)
	}
}
