package main

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curveLook tells the paths of a picture apart, in order of appearance. Lines
// that lie on each other are seen by their dashes and points.
var curveLook = []struct {
	color  color.RGBA
	dashes []vg.Length
	shape  draw.GlyphDrawer
}{
	{color.RGBA{0xe0, 0x7b, 0x39, 0xff}, nil, draw.CircleGlyph{}},
	{color.RGBA{0x2f, 0x7a, 0xc4, 0xff}, []vg.Length{6, 3}, draw.TriangleGlyph{}},
	{color.RGBA{0x3a, 0x9b, 0x5c, 0xff}, nil, draw.BoxGlyph{}},
	{color.RGBA{0x86, 0x6a, 0xc0, 0xff}, []vg.Length{2, 2}, draw.PyramidGlyph{}},
	{color.RGBA{0xd0, 0x6f, 0xb0, 0xff}, nil, draw.CrossGlyph{}},
	{color.RGBA{0xc4, 0x4e, 0x52, 0xff}, []vg.Length{6, 3}, draw.SquareGlyph{}},
	{color.RGBA{0x9a, 0x6b, 0x4f, 0xff}, nil, draw.PlusGlyph{}},
	{color.RGBA{0x2a, 0xa5, 0xb5, 0xff}, []vg.Length{2, 2}, draw.RingGlyph{}},
	{color.RGBA{0xa8, 0xa1, 0x2b, 0xff}, nil, draw.TriangleGlyph{}},
	{color.RGBA{0x80, 0x88, 0x8c, 0xff}, []vg.Length{6, 3}, draw.CircleGlyph{}},
}

// curveEntry is a line of the legend, of a path or of links.
type curveEntry struct {
	name string
	look int // of curveLook; below 0: links
	at   vg.Point
}

// curveLegend places the legend's entries, from left to right and then down. There
// is at least one.
func curveLegend(f *curveFlags, curves []curve, paths []string, width vg.Length) (out []curveEntry) {
	for i, p := range paths {
		out = append(out, curveEntry{name: p, look: i % len(curveLook)})
	}
	if len(out) == 0 || slices.ContainsFunc(curves, func(c curve) bool { return !inRequests(f, &c) && len(nearLinks(&c)) > 0 }) {
		out = append(out, curveEntry{name: "narrowest link", look: -1})
	}
	style := chartText(10, chartInk, text.XLeft)
	var at vg.Point
	for i := range out {
		e := &out[i]
		e.name = chartFit(e.name, style, width-29)
		wide := 29 + style.Width(e.name)
		if at.X > 0 && at.X+wide > width {
			at = vg.Point{Y: at.Y - 15}
		}
		e.at = at
		at.X += wide + 16
	}
	return out
}

func drawCurveHead(dc draw.Canvas, f *curveFlags, legend []curveEntry) {
	what := "Random reads"
	if f.write {
		what = "Random writes"
	}
	dc.FillText(chartBold(chartText(14, chartInk, text.XLeft)), vg.Point{X: dc.Min.X, Y: dc.Max.Y - 18}, what+" by access path, modelled")
	sub := chartText(10, chartMuted, text.XLeft)
	about := fmt.Sprintf("Simulated in virtual time from a preset's figures, not measured; seed %d", f.seed)
	dc.FillText(sub, vg.Point{X: dc.Min.X, Y: dc.Max.Y - 35}, chartFit(about, sub, dc.Max.X-dc.Min.X))
	for _, e := range legend {
		x, y := dc.Min.X+e.at.X, dc.Max.Y-53+e.at.Y
		if e.look < 0 {
			dc.StrokeLine2(draw.LineStyle{Color: chartMuted, Width: 1.1, Dashes: linkDashes}, x, y, x+24, y)
		} else {
			look := curveLook[e.look]
			dc.StrokeLine2(draw.LineStyle{Color: look.color, Width: 1.6, Dashes: look.dashes}, x, y, x+24, y)
			dc.DrawGlyph(draw.GlyphStyle{Color: look.color, Radius: 2.6, Shape: look.shape}, vg.Point{X: x + 12, Y: y})
		}
		dc.FillText(chartText(10, chartInk, text.XLeft), vg.Point{X: x + 29, Y: y}, e.name)
	}
}
