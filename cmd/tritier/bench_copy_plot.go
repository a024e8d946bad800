package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/units"
)

// openPlot creates the picture before the measurement, so that a wrong name is
// found at once. nil without a name.
func openPlot(name string) (*output, error) {
	if name == "" {
		return nil, nil
	}
	o, err := createOutput(name, nil)
	if err != nil {
		return nil, fmt.Errorf("--plot: %w", err)
	}
	return o, nil
}

// plotFormat is the picture's format by its name; SVG to a device or a pipe.
func plotFormat(name string) string {
	if strings.EqualFold(filepath.Ext(name), ".png") {
		return "png"
	}
	return "svg"
}

// pathColors tell paths apart, the same ones in every picture.
var pathColors = map[copyeng.Path]color.RGBA{
	copyeng.PathMemcpy:     {0x80, 0x88, 0x8c, 0xff},
	copyeng.PathBatch:      {0x2f, 0x7a, 0xc4, 0xff},
	copyeng.PathBatch2:     {0x2a, 0xa5, 0xb5, 0xff},
	copyeng.PathBatch4:     {0x86, 0x6a, 0xc0, 0xff},
	copyeng.PathZeroCopy:   {0xe0, 0x7b, 0x39, 0xff},
	copyeng.PathHybrid25:   {0xa8, 0xa1, 0x2b, 0xff},
	copyeng.PathHybrid50:   {0x3a, 0x9b, 0x5c, 0xff},
	copyeng.PathSequential: {0x9a, 0x6b, 0x4f, 0xff},
	copyeng.PathExchange:   {0xd0, 0x6f, 0xb0, 0xff},
	copyeng.PathTwoBatches: {0x5f, 0x2a, 0x6b, 0xff},
}

// Looks of the two lines that are no path.
var (
	chooserColor = color.RGBA{0xc3, 0xca, 0xd1, 0xff}
	chooserWidth = vg.Length(5.5)
	linkDashes   = []vg.Length{5, 3}
)

// Measures of the picture, in points.
const (
	copyPanelWidth  = vg.Length(320)
	copyPanelHeight = vg.Length(196)
	copyHeadHeight  = vg.Length(78)
	copyMargin      = vg.Length(16)
	copyGap         = vg.Length(12)
	copyMinWidth    = vg.Length(680) // what the head needs
)

// draw writes the picture: a row of panels for each page size, a column for
// each direction.
func (r *copyReport) draw(w io.Writer, format string) error {
	if len(r.rows) == 0 {
		return errors.New("nothing was measured that could be drawn")
	}
	c := chart{
		w: max(copyMinWidth, 2*copyMargin+copyPanelWidth*vg.Length(len(r.directions))),
		h: copyHeadHeight + (copyPanelHeight+copyGap)*vg.Length(len(r.pages)) + copyMargin,
	}
	c.draw = r.drawAll
	return c.write(w, format)
}

func (r *copyReport) drawAll(dc draw.Canvas) {
	r.drawHead(draw.Crop(dc, copyMargin, -copyMargin, 0, 0))
	for i, page := range r.pages {
		top := dc.Max.Y - copyHeadHeight - (copyPanelHeight+copyGap)*vg.Length(i)
		for k, d := range r.directions {
			cell := dc
			cell.Min = vg.Point{X: dc.Min.X + copyMargin + copyPanelWidth*vg.Length(k), Y: top - copyPanelHeight}
			cell.Max = vg.Point{X: cell.Min.X + copyPanelWidth - copyGap, Y: top}
			r.drawPanel(cell, page, d)
		}
	}
}

// drawHead is title, machine and legend.
func (r *copyReport) drawHead(dc draw.Canvas) {
	width := dc.Max.X - dc.Min.X
	title, sub := chartBold(chartText(14, chartInk, text.XLeft)), chartText(10, chartMuted, text.XLeft)
	dc.FillText(title, vg.Point{X: dc.Min.X, Y: dc.Max.Y - 16}, "Copies of scattered pages between host and GPU memory")
	about := fmt.Sprintf("%s, CUDA %s, %s; medians of %s, %s", r.dev.Name(), r.dev.Driver().Version(), r.pcie,
		plural(uint64(r.f.runs), "run"), r.date.Format("2006-01-02"))
	dc.FillText(sub, vg.Point{X: dc.Min.X, Y: dc.Max.Y - 34}, chartFit(about, sub, width))
	x, y := dc.Min.X, dc.Max.Y-54
	entry := chartText(10, chartInk, text.XLeft)
	for _, e := range r.legend() {
		need := 24 + entry.Width(e.label) + 14
		if x+need > dc.Max.X && x > dc.Min.X {
			x, y = dc.Min.X, y-14
		}
		dc.StrokeLine2(e.style, x, y, x+18, y)
		dc.FillText(entry, vg.Point{X: x + 23, Y: y}, e.label)
		x += need
	}
}

// legendEntry is a line's look and name.
type legendEntry struct {
	label string
	style draw.LineStyle
}

// legend lists what any panel shows.
func (r *copyReport) legend() (list []legendEntry) {
	if r.chooser {
		list = append(list, legendEntry{"chooser", draw.LineStyle{Color: chooserColor, Width: chooserWidth}})
	}
	for _, p := range slices.Concat(batchPaths, bothPaths) {
		if slices.ContainsFunc(r.rows, func(x copyRow) bool {
			return slices.ContainsFunc(x.paths, func(t copyTiming) bool { return t.path == p })
		}) {
			list = append(list, legendEntry{string(p), draw.LineStyle{Color: pathColors[p], Width: 1.6}})
		}
	}
	return append(list, legendEntry{"link", draw.LineStyle{Color: chartMuted, Width: 1.1, Dashes: linkDashes}})
}

// series are the points of one panel by path; the chooser's are under "".
func (r *copyReport) series(page int, d copyDirection) map[copyeng.Path]plotter.XYs {
	lines := map[copyeng.Path]plotter.XYs{}
	for i := range r.rows {
		x := &r.rows[i]
		if x.page != page || x.direction != d {
			continue
		}
		at := func(p copyeng.Path, t *copyTiming) {
			lines[p] = append(lines[p], plotter.XY{X: float64(x.pages), Y: x.gbps(t)})
		}
		if x.chooser != nil {
			at("", x.chooser)
		}
		for k := range x.paths {
			at(x.paths[k].path, &x.paths[k])
		}
	}
	return lines
}

// drawPanel is one page size and direction: GB/s over the number of pages.
func (r *copyReport) drawPanel(dc draw.Canvas, page int, d copyDirection) {
	lines := r.series(page, d)
	head := chartBold(chartText(10.5, chartInk, text.XLeft))
	dc.FillText(head, vg.Point{X: dc.Min.X + 4, Y: dc.Max.Y - 7}, fmt.Sprintf("%s pages, %s", shortBytes(page), d.text()))
	p := plot.New()
	p.BackgroundColor = nil
	chartAxis(&p.X, "pages in the batch")
	chartAxis(&p.Y, "GB/s")
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.ConstantTicks(countTicks(r.counts))
	p.Y.Tick.Marker = plot.TickerFunc(chartRoundTicks)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = chartGrid, chartGrid
	grid.Vertical.Width, grid.Horizontal.Width = 0.7, 0.7
	p.Add(grid)
	low, high := r.countRange()
	if rate := r.linkRate(d); rate > 0 {
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: low, Y: rate}, {X: high, Y: rate}},
			LineStyle: draw.LineStyle{Color: chartMuted, Width: 1.1, Dashes: linkDashes}})
	}
	// The chooser lies below the paths: a path that it takes runs within it.
	addSeries(p, lines[""], draw.LineStyle{Color: chooserColor, Width: chooserWidth})
	for _, path := range slices.Concat(batchPaths, bothPaths) {
		addSeries(p, lines[path], draw.LineStyle{Color: pathColors[path], Width: 1.5})
	}
	p.X.Min, p.X.Max = low, high
	p.Y.Min, p.Y.Max = 0, max(1e-3, 1.06*max(p.Y.Max, r.linkRate(d)))
	p.Draw(draw.Crop(dc, 0, 0, 0, -16))
}

// addSeries draws a line with its points, which a single one needs to be seen.
func addSeries(p *plot.Plot, points plotter.XYs, look draw.LineStyle) {
	if len(points) == 0 {
		return
	}
	p.Add(&plotter.Line{XYs: points, LineStyle: look},
		&plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: look.Color, Radius: max(1.7, look.Width/2), Shape: draw.CircleGlyph{}}})
}

// countRange is the extent of the horizontal axis, which must not be empty.
func (r *copyReport) countRange() (low, high float64) {
	low, high = float64(r.counts[0]), float64(r.counts[len(r.counts)-1])
	if low == high {
		return low / 2, high * 2
	}
	return low, high
}

// countTicks marks every number of pages and labels at most six of them.
func countTicks(counts []int) (ticks []plot.Tick) {
	every := (len(counts) + 5) / 6
	for i, n := range counts {
		t := plot.Tick{Value: float64(n)}
		if i%every == 0 {
			t.Label = units.FormatCount(uint64(n))
		}
		ticks = append(ticks, t)
	}
	return ticks
}
