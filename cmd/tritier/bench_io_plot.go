package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/internal/units"
)

// ioColors tell sizes apart, from small to large.
var ioColors = []color.RGBA{
	{0x2f, 0x7a, 0xc4, 0xff}, {0xe0, 0x7b, 0x39, 0xff}, {0x3a, 0x9b, 0x5c, 0xff}, {0x86, 0x6a, 0xc0, 0xff}, {0xc4, 0x3c, 0x4c, 0xff}, {0x2a, 0xa5, 0xb5, 0xff},
	{0x9a, 0x6b, 0x4f, 0xff}, {0xd0, 0x6f, 0xb0, 0xff}, {0xa8, 0xa1, 0x2b, 0xff}, {0x80, 0x88, 0x8c, 0xff}, {0x5f, 0x2a, 0x6b, 0xff}, {0x1f, 0x23, 0x28, 0xff},
}

// Measures of the picture, in points.
const (
	ioPanelWidth  = vg.Length(400)
	ioPanelHeight = vg.Length(236)
	ioHeadHeight  = vg.Length(84)
)

// ioPanel is what one row of panels shows: all sizes over GPU threads.
type ioPanel struct {
	op, pattern     string
	service, queues int
}

func panelOf(x *ioRow) ioPanel { return ioPanel{x.op, x.pattern, x.service, x.queues} }

// draw writes the picture: for each load IOPS and GB/s over GPU threads. What
// the CPU reaches is a dashed line across.
func (r *ioReport) draw(w io.Writer, format string) error {
	panels := r.panels()
	if len(panels) == 0 {
		return errors.New("nothing was measured that could be drawn")
	}
	c := chart{
		w: 2*copyMargin + 2*ioPanelWidth,
		h: ioHeadHeight + (ioPanelHeight+copyGap)*vg.Length(len(panels)) + copyMargin,
	}
	c.draw = func(dc draw.Canvas) {
		r.drawHead(draw.Crop(dc, copyMargin, -copyMargin, 0, 0))
		for i, p := range panels {
			top := dc.Max.Y - ioHeadHeight - (ioPanelHeight+copyGap)*vg.Length(i)
			for k, rate := range ioRates {
				cell := dc
				cell.Min = vg.Point{X: dc.Min.X + copyMargin + ioPanelWidth*vg.Length(k), Y: top - ioPanelHeight}
				cell.Max = vg.Point{X: cell.Min.X + ioPanelWidth - copyGap, Y: top}
				r.drawPanel(cell, p, rate)
			}
		}
	}
	return c.write(w, format)
}

// ioRate is what a panel's vertical axis shows.
type ioRate struct {
	name string
	of   func(x *ioRow) float64
}

var ioRates = []ioRate{
	{"million IOPS", func(x *ioRow) float64 { return x.median(func(f *ioFigures) float64 { return f.iops }) / 1e6 }},
	{"GB/s", func(x *ioRow) float64 { return x.median(func(f *ioFigures) float64 { return f.gbps }) }},
}

// panels are the loads of the GPU in the order of the table.
func (r *ioReport) panels() (list []ioPanel) {
	for i := range r.rows {
		if x := &r.rows[i]; x.initiator == byGPU && len(x.runs) > 0 && !slices.Contains(list, panelOf(x)) {
			list = append(list, panelOf(x))
		}
	}
	return list
}

// shows says whether a row belongs into a panel: the CPU's whatever its queues.
func (p ioPanel) shows(x *ioRow) bool {
	return len(x.runs) > 0 && x.op == p.op && x.pattern == p.pattern && x.service == p.service && (x.queues == p.queues || x.initiator == byCPU)
}

// sizes are those of any row, and the index of each is its colour's.
func (r *ioReport) sizes() (list []int) {
	for i := range r.rows {
		list = append(list, r.rows[i].size)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// drawHead is title, machine and legend.
func (r *ioReport) drawHead(dc draw.Canvas) {
	width := dc.Max.X - dc.Min.X
	title, sub := chartBold(chartText(14, chartInk, text.XLeft)), chartText(10, chartMuted, text.XLeft)
	what := "I/O that GPU threads submit"
	if r.model != "" {
		what += ", modelled by " + r.model
	}
	dc.FillText(title, vg.Point{X: dc.Min.X, Y: dc.Max.Y - 16}, chartFit(what, title, width))
	about := fmt.Sprintf("%s, CUDA %s; %s; medians of %s, every byte verified, %s", r.dev.Name(), r.dev.Driver().Version(), r.list, plural(uint64(r.f.runs), "run"), r.date.Format("2006-01-02"))
	dc.FillText(sub, vg.Point{X: dc.Min.X, Y: dc.Max.Y - 34}, chartFit(about, sub, width))
	x, y, entry := dc.Min.X, dc.Max.Y-56, chartText(10, chartInk, text.XLeft)
	add := func(label string, look draw.LineStyle) {
		dc.StrokeLine2(look, x, y, x+18, y)
		dc.FillText(entry, vg.Point{X: x + 23, Y: y}, label)
		x += 37 + entry.Width(label)
	}
	for i, size := range r.sizes() {
		add(shortBytes(size), ioLook(i, byGPU))
	}
	if slices.ContainsFunc(r.rows, func(x ioRow) bool { return x.initiator == byCPU }) {
		add("submitted by the CPU", draw.LineStyle{Color: chartMuted, Width: 1.4, Dashes: linkDashes})
	}
}

// ioLook is a size's line.
func ioLook(i int, initiator string) draw.LineStyle {
	s := draw.LineStyle{Color: ioColors[i%len(ioColors)], Width: 1.6}
	if initiator == byCPU {
		s.Width, s.Dashes = 1.4, linkDashes
	}
	return s
}

// title says what a panel shows.
func (r *ioReport) title(p ioPanel) string {
	what := p.op
	if p.op == opMixed {
		what = fmt.Sprintf("mixed, %d %% reads", r.f.reads)
	}
	s := fmt.Sprintf("%s %s, %s a drive", p.pattern, what, plural(uint64(p.queues), "queue"))
	if slices.ContainsFunc(r.drives, isSoft) {
		s += ", " + plural(uint64(p.service), "service thread")
	}
	if l := r.label(); l != "" {
		s += ", " + l
	}
	return s
}

// drawPanel is one load: a rate over the number of GPU threads.
func (r *ioReport) drawPanel(dc draw.Canvas, of ioPanel, rate ioRate) {
	head := chartBold(chartText(10.5, chartInk, text.XLeft))
	dc.FillText(head, vg.Point{X: dc.Min.X + 4, Y: dc.Max.Y - 7}, chartFit(r.title(of), head, dc.Max.X-dc.Min.X-8))
	p := plot.New()
	p.BackgroundColor = nil
	chartAxis(&p.X, "GPU threads, and SMs that ran them")
	chartAxis(&p.Y, strings.TrimSpace(r.label()+" "+rate.name))
	p.X.Scale = plot.LogScale{}
	ticks, low, high := r.ticks(of)
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Marker = plot.TickerFunc(chartRoundTicks)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = chartGrid, chartGrid
	grid.Vertical.Width, grid.Horizontal.Width = 0.7, 0.7
	p.Add(grid)
	top := 0.0
	for i, size := range r.sizes() {
		var points plotter.XYs
		for k := range r.rows {
			x := &r.rows[k]
			if !of.shows(x) || x.size != size {
				continue
			}
			v := rate.of(x)
			top = max(top, v)
			if x.initiator == byCPU {
				p.Add(&plotter.Line{XYs: plotter.XYs{{X: low, Y: v}, {X: high, Y: v}}, LineStyle: ioLook(i, byCPU)})
				continue
			}
			points = append(points, plotter.XY{X: float64(x.threads()), Y: v})
		}
		addSeries(p, points, ioLook(i, byGPU))
	}
	p.X.Min, p.X.Max = low, high
	p.Y.Min, p.Y.Max = 0, max(1e-6, 1.06*top)
	p.Draw(draw.Crop(dc, 0, 0, 0, -16))
}

// ticks marks the numbers of GPU threads of a panel, each with the SMs that ran
// them, and gives the extent of the axis, which must not be empty.
func (r *ioReport) ticks(of ioPanel) (ticks []plot.Tick, low, high float64) {
	sms := map[int]int{}
	for i := range r.rows {
		if x := &r.rows[i]; of.shows(x) && x.initiator == byGPU {
			sms[x.threads()] = max(sms[x.threads()], x.sms)
		}
	}
	var counts []int
	for n := range sms {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	every := (len(counts) + 7) / 8
	for i, n := range counts {
		t := plot.Tick{Value: float64(n)}
		if i%every == 0 {
			t.Label = fmt.Sprintf("%s\n%s", units.FormatCount(uint64(n)), plural(uint64(sms[n]), "SM"))
		}
		ticks = append(ticks, t)
	}
	low, high = float64(counts[0]), float64(counts[len(counts)-1])
	if low == high {
		return ticks, low / 2, high * 2
	}
	return ticks, low, high
}
