package report

import (
	"fmt"
	"image/color"
	"io"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/tritier/tritier/internal/svgtext"
)

// Colours of the figures. None is pure black: the SVG writer leaves black out,
// and then a page could not replace it in its dark theme.
var (
	paper = color.RGBA{0xff, 0xff, 0xff, 0xff}
	ink   = color.RGBA{0x1f, 0x23, 0x28, 0xff}
	muted = color.RGBA{0x59, 0x63, 0x6e, 0xff}
	grid  = color.RGBA{0xd8, 0xde, 0xe4, 0xff}

	onDark  = color.RGBA{0xfe, 0xfe, 0xfe, 0xff} // text on a dark bar, in both themes
	onLight = color.RGBA{0x10, 0x14, 0x18, 0xff} // text on a light bar, in both themes

	colorT1       = color.RGBA{0x1f, 0x5f, 0xa8, 0xff}
	colorT2       = color.RGBA{0x7d, 0xb4, 0xe0, 0xff}
	colorWrite    = color.RGBA{0xb3, 0xb9, 0xc0, 0xff}
	colorPrefetch = color.RGBA{0xf2, 0xb9, 0x8c, 0xff}
	colorSSD      = color.RGBA{0xe0, 0x7b, 0x39, 0xff}
	colorError    = color.RGBA{0xb3, 0x1d, 0x28, 0xff}
	colorTime     = color.RGBA{0x6c, 0x8e, 0x7b, 0xff}
)

// figure is a drawing of a given size in points.
type figure struct {
	w, h vg.Length
	draw func(c draw.Canvas)
}

// dpi is the resolution of PNG files: sharp on a dense screen and in print.
const dpi = 192

// png writes the figure as a PNG image.
func (f figure) png(w io.Writer) error {
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.w, f.h), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(paper))}
	f.draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

// svg returns the figure as an SVG document.
func (f figure) svg() (string, error) {
	c := svgtext.New(f.w, f.h)
	dc := draw.New(c)
	fillRect(dc, paper, dc.Min.X, dc.Min.Y, dc.Max.X, dc.Max.Y)
	f.draw(dc)
	return c.Document()
}

// themed makes the colours of paper and ink those of the page around it.
var themed = strings.NewReplacer(
	hex(paper), "var(--paper)", hex(ink), "var(--ink)", hex(muted), "var(--muted)", hex(grid), "var(--grid)")

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// inline returns the figure as an SVG element for a page, without a prologue
// and as wide as the page allows.
func (f figure) inline(label string) (string, error) {
	doc, err := f.svg()
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(doc, "<svg ")
	if !found {
		return "", fmt.Errorf("report: the SVG writer made no <svg> element")
	}
	return `<svg role="img" aria-label="` + xmlEscape(label) + `" ` + themed.Replace(rest), nil
}

func xmlEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// stack puts figures below one another.
func stack(figs []figure) figure {
	const gap = vg.Length(18)
	out := figure{}
	for i, f := range figs {
		out.w = max(out.w, f.w)
		out.h += f.h
		if i > 0 {
			out.h += gap
		}
	}
	out.draw = func(c draw.Canvas) {
		top := c.Max.Y
		for _, f := range figs {
			part := c
			part.Min, part.Max = vg.Point{X: c.Min.X, Y: top - f.h}, vg.Point{X: c.Min.X + f.w, Y: top}
			f.draw(part)
			top -= f.h + gap
		}
	}
	return out
}

// style is a text style of the figures.
func style(size vg.Length, c color.Color, x text.XAlignment) text.Style {
	return text.Style{Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: x, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = xfont.WeightBold
	return s
}

func fillRect(c draw.Canvas, col color.Color, x0, y0, x1, y1 vg.Length) {
	c.FillPolygon(col, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}

func line(c draw.Canvas, col color.Color, width vg.Length, dashes []vg.Length, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(draw.LineStyle{Color: col, Width: width, Dashes: dashes}, x0, y0, x1, y1)
}

// fit cuts s until it is at most w wide.
func fit(s string, sty text.Style, w vg.Length) string {
	if sty.Width(s) <= w {
		return s
	}
	chars := []rune(s)
	for len(chars) > 1 && sty.Width(string(chars)+"…") > w {
		chars = chars[:len(chars)-1]
	}
	return string(chars) + "…"
}
