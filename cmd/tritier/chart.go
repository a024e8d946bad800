package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/tritier/tritier/internal/svgtext"
)

// Colours of charts of measurements, those of the simulator's reports.
var (
	chartPaper = color.RGBA{0xff, 0xff, 0xff, 0xff}
	chartInk   = color.RGBA{0x1f, 0x23, 0x28, 0xff}
	chartMuted = color.RGBA{0x59, 0x63, 0x6e, 0xff}
	chartGrid  = color.RGBA{0xe3, 0xe7, 0xeb, 0xff}
)

// chartDPI makes PNG files sharp on a dense screen and in print.
const chartDPI = 192

// chart is a drawing of a given size in points.
type chart struct {
	w, h vg.Length
	draw func(c draw.Canvas)
}

// write writes the drawing as "svg" or "png".
func (c chart) write(w io.Writer, format string) error {
	switch format {
	case "png":
		canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(c.w, c.h), vgimg.UseDPI(chartDPI), vgimg.UseBackgroundColor(chartPaper))}
		c.draw(draw.New(canvas))
		_, err := canvas.WriteTo(w)
		return err
	case "svg":
		canvas := svgtext.New(c.w, c.h)
		dc := draw.New(canvas)
		dc.FillPolygon(chartPaper, []vg.Point{dc.Min, {X: dc.Max.X, Y: dc.Min.Y}, dc.Max, {X: dc.Min.X, Y: dc.Max.Y}})
		c.draw(dc)
		doc, err := canvas.Document()
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, doc)
		return err
	}
	return fmt.Errorf("no picture format %q", format)
}

func chartText(size vg.Length, c color.Color, x text.XAlignment) text.Style {
	return text.Style{Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: x, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
}

func chartBold(s text.Style) text.Style {
	s.Font.Weight = xfont.WeightBold
	return s
}

// chartAxis gives an axis the charts' look.
func chartAxis(a *plot.Axis, label string) {
	a.Label.Text = label
	a.Label.TextStyle = chartText(9, chartMuted, text.XCenter)
	a.Label.TextStyle.YAlign = text.YBottom
	a.Color, a.Tick.Color = chartMuted, chartMuted
	a.Width, a.Tick.Width = 0.7, 0.7
	a.Tick.Length = 3
	ticks := a.Tick.Label
	a.Tick.Label = chartText(8.5, chartMuted, ticks.XAlign)
	a.Tick.Label.YAlign = ticks.YAlign
}

// chartRoundTicks marks about five round values between lo and hi.
func chartRoundTicks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/5)))
	for _, f := range []float64{2, 2.5, 2} { // 1, 2, 5, 10 times a power of ten
		if (hi-lo)/step <= 5 {
			break
		}
		step *= f
	}
	var out []plot.Tick
	for i := math.Ceil(lo / step); i*step <= hi; i++ { // at most 6 rounds
		out = append(out, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 4, 64)})
	}
	return out
}

// chartFit cuts s until it is at most w wide.
func chartFit(s string, sty text.Style, w vg.Length) string {
	if sty.Width(s) <= w {
		return s
	}
	chars := []rune(s)
	for len(chars) > 1 && sty.Width(string(chars)+"…") > w {
		chars = chars[:len(chars)-1]
	}
	return string(chars) + "…"
}
