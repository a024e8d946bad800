package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tritier/tritier/sim"
)

// Measures of the bar chart, in points.
const (
	figureWidth = vg.Length(780)
	margin      = vg.Length(14)
	headHeight  = vg.Length(82) // title, subtitle, legend, label of the bound
	rowHeight   = vg.Length(24)
	barHeight   = vg.Length(17)
	axisHeight  = vg.Length(40)
	timeWidth   = vg.Length(190)
	labelGap    = vg.Length(8)
)

// segment is one part of a stacked bar.
type segment struct {
	name  string
	fill  color.RGBA
	text  color.RGBA
	value func(r *sim.Result) uint64
}

// segments in stacking order: SSD reads first, from a common edge, so that they
// can be compared with each other and with the bound. Reads by prefetches come
// on top of the accesses, so that a bar may be longer than 100 %.
var segments = []segment{
	{"SSD fetches", colorSSD, onLight, func(r *sim.Result) uint64 { return r.T3Fetches }},
	{"SSD reads by prefetches", colorPrefetch, onLight, func(r *sim.Result) uint64 { return r.SSDReads - min(r.T3Fetches, r.SSDReads) }},
	{"T2 hits", colorT2, onLight, func(r *sim.Result) uint64 { return r.T2Hits }},
	{"T1 hits", colorT1, onDark, func(r *sim.Result) uint64 { return r.T1Hits }},
	{"overwrites", colorWrite, onLight, func(r *sim.Result) uint64 { return r.Overwrites }},
	{"errors", colorError, onDark, func(r *sim.Result) uint64 { return r.Errors }},
}

// bars draws one size of one trace: for each policy where its accesses were
// served, Belady's bound across, and modelled times beside.
type bars struct {
	info sim.TraceInfo
	size sizeGroup

	labels   vg.Length // right edge of the policies' names
	x0, x1   vg.Length // 0 % and full
	full     float64   // the right end of the axis, in percent: 100 or more
	top      vg.Length // upper edge of the first row
	bottom   vg.Length // lower edge of the last row
	modelled bool
}

// barFigure is the figure of one size of one trace.
func barFigure(info sim.TraceInfo, size sizeGroup) figure {
	b := &bars{info: info, size: size, full: 100}
	for _, r := range size.rows {
		if r.Accesses > 0 {
			b.full = max(b.full, 100+100*float64(r.SSDReads-min(r.T3Fetches, r.SSDReads))/float64(r.Accesses))
		}
		b.modelled = b.modelled || r.ModelledSeconds != nil
	}
	return figure{w: figureWidth, h: headHeight + rowHeight*vg.Length(len(size.rows)) + axisHeight, draw: b.draw}
}

func (b *bars) draw(c draw.Canvas) {
	names := style(10.5, ink, text.XRight)
	widest := vg.Length(0)
	for _, r := range b.size.rows {
		widest = max(widest, names.Width(r.label))
	}
	b.labels = c.Min.X + margin + min(widest, 190)
	b.x0 = b.labels + labelGap
	b.x1 = c.Max.X - margin - 8
	if b.modelled {
		b.x1 -= timeWidth
	}
	b.top = c.Max.Y - headHeight
	b.bottom = b.top - rowHeight*vg.Length(len(b.size.rows))
	b.head(c)
	b.axis(c)
	for i, r := range b.size.rows {
		mid := b.top - rowHeight*(vg.Length(i)+0.5)
		c.FillText(names, vg.Point{X: b.labels, Y: mid}, fit(r.label, names, b.labels-c.Min.X-margin/2))
		b.bar(c, r.Result, mid)
	}
	b.bound(c)
	if b.modelled {
		b.times(c)
	}
}

// head writes title, subtitle and legend.
func (b *bars) head(c draw.Canvas) {
	title, sub := bold(style(13.5, ink, text.XLeft)), style(10, muted, text.XLeft)
	x, width := c.Min.X+margin, c.Max.X-c.Min.X-2*margin
	c.FillText(title, vg.Point{X: x, Y: c.Max.Y - 15}, "Where the accesses were served")
	c.FillText(sub, vg.Point{X: x, Y: c.Max.Y - 32}, fit(subtitle(b.info, b.size.gpu, b.size.host), sub, width))
	legend := style(10, ink, text.XLeft)
	at := b.x0
	for _, s := range segments {
		extra := s.name == "overwrites" || s.name == "errors" || s.name == "SSD reads by prefetches"
		if extra && !b.any(s.value) || s.name == "T2 hits" && b.size.host == 0 {
			continue
		}
		fillRect(c, s.fill, at, c.Max.Y-55, at+10, c.Max.Y-45)
		c.FillText(legend, vg.Point{X: at + 14, Y: c.Max.Y - 50}, s.name)
		at += 14 + legend.Width(s.name) + 16
	}
}

// subtitle names the trace and the sizes.
func subtitle(t sim.TraceInfo, gpu, host int) string {
	s := fmt.Sprintf("%s, %s; T1 %s", Printable(t.Name), accesses(t.Accesses), tierText(gpu, t.PageSize))
	if host > 0 {
		s += ", T2 " + tierText(host, t.PageSize)
	}
	return s
}

func (b *bars) any(value func(*sim.Result) uint64) bool {
	for _, r := range b.size.rows {
		if value(r.Result) > 0 {
			return true
		}
	}
	return false
}

// axis draws the percent grid and its labels.
func (b *bars) axis(c draw.Canvas) {
	label := style(9.5, muted, text.XCenter)
	for _, t := range roundTicks(0, b.full) {
		x := b.at(t.Value)
		line(c, grid, 0.7, nil, x, b.bottom, x, b.top)
		c.FillText(label, vg.Point{X: x, Y: b.bottom - 9}, t.Label)
	}
	c.FillText(label, vg.Point{X: (b.x0 + b.x1) / 2, Y: b.bottom - 24}, "% of accesses")
}

// at is the place of a percentage on the axis.
func (b *bars) at(percent float64) vg.Length {
	return b.x0 + (b.x1-b.x0)*vg.Length(percent/b.full)
}

// bar draws one policy's stack around the line mid.
func (b *bars) bar(c draw.Canvas, r *sim.Result, mid vg.Length) {
	if r.Accesses == 0 {
		return
	}
	sum := uint64(0)
	for _, s := range segments {
		n := s.value(r)
		if n == 0 {
			continue
		}
		share := func(n uint64) float64 { return 100 * float64(n) / float64(r.Accesses) }
		from, to := b.at(share(sum)), b.at(share(sum+n))
		sum += n
		fillRect(c, s.fill, from, mid-barHeight/2, to, mid+barHeight/2)
		value, sty := fmt.Sprintf("%.1f", share(n)), style(9.5, s.text, text.XCenter)
		if sty.Width(value)+6 < to-from {
			c.FillText(sty, vg.Point{X: b.clear(from, to), Y: mid}, value)
		}
	}
}

// clear is the middle of the larger part of from..to that the line of the
// bound leaves, so that no figure lies under it.
func (b *bars) clear(from, to vg.Length) vg.Length {
	if x, _, ok := b.boundLine(); ok && from < x && x < to {
		if x-from > to-x {
			to = x
		} else {
			from = x
		}
	}
	return (from + to) / 2
}

// boundLine is the place of the bound and the share of accesses that it means.
func (b *bars) boundLine() (x vg.Length, least float64, ok bool) {
	for _, r := range b.size.rows {
		if least, ok := boundPercent(r.Result); ok {
			return b.at(least), least, true
		}
	}
	return 0, 0, false
}

// bound draws the line that no policy's SSD reads can end left of.
func (b *bars) bound(c draw.Canvas) {
	x, least, ok := b.boundLine()
	if !ok {
		return
	}
	line(c, paper, 3, nil, x, b.bottom-2, x, b.top+6)
	line(c, ink, 1.5, []vg.Length{4, 2.5}, x, b.bottom-2, x, b.top+6)
	sty := style(9.5, ink, text.XCenter)
	note := fmt.Sprintf("Belady's bound: SSD reads are at least %s %%", share(least))
	half := sty.Width(note) / 2
	c.FillText(sty, vg.Point{X: min(max(x, b.x0+half), b.x1-half), Y: b.top + 14}, note)
}

// share writes a percentage; a small one keeps two digits.
func share(p float64) string {
	if p > 0 && p < 0.1 {
		return strconv.FormatFloat(p, 'g', 2, 64)
	}
	return strconv.FormatFloat(p, 'f', 1, 64)
}

// times draws the modelled seconds beside the bars.
func (b *bars) times(c draw.Canvas) {
	longest, model := 0.0, ""
	for _, r := range b.size.rows {
		if r.ModelledSeconds != nil {
			longest, model = max(longest, *r.ModelledSeconds), r.Model
		}
	}
	x0, width := b.x1+26, timeWidth-26-58
	sty, value := style(9.5, muted, text.XLeft), style(9.5, ink, text.XLeft)
	c.FillText(style(10, ink, text.XLeft), vg.Point{X: x0, Y: c.Max.Y - 50}, fit("modelled time, "+model, sty, timeWidth-20))
	line(c, grid, 0.7, nil, x0, b.bottom, x0, b.top)
	for i, r := range b.size.rows {
		mid := b.top - rowHeight*(vg.Length(i)+0.5)
		if r.ModelledSeconds == nil {
			continue
		}
		end := x0
		if longest > 0 && !math.IsInf(longest, 0) {
			end += width * vg.Length(*r.ModelledSeconds/longest)
		}
		fillRect(c, colorTime, x0, mid-barHeight/2, end, mid+barHeight/2)
		c.FillText(value, vg.Point{X: end + 5, Y: mid}, seconds(*r.ModelledSeconds))
	}
	c.FillText(sty, vg.Point{X: x0, Y: b.bottom - 24}, "modelled, not measured")
}
