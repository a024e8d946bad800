// Package svgtext writes gonum drawings as SVG whose texts keep the widths that
// they were laid out with, whatever fonts a viewer has.
package svgtext

import (
	"bytes"
	"fmt"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Canvas is an SVG canvas that remembers how wide each text was meant to be. It is
// not safe for concurrent use.
type Canvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

// New is a canvas of w times h points.
func New(w, h vg.Length) *Canvas { return &Canvas{Canvas: vgsvg.New(w, h)} }

// FillString draws str with its baseline's left end at pt.
func (c *Canvas) FillString(f font.Face, pt vg.Point, str string) {
	c.widths = append(c.widths, f.Width(str))
	c.Canvas.FillString(f, pt, str)
}

// Document is the drawing so far. Texts name fonts of the same metrics as
// Liberation, and are pressed to their widths where a viewer has none of them: other
// fonts are wider, and would run into the chart.
func (c *Canvas) Document() (string, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	const element = "<text "
	parts := strings.Split(b.String(), element)
	for i, w := range c.widths {
		if i+1 < len(parts) && w > 0 {
			parts[i+1] = fmt.Sprintf(`textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, w.Points()) + parts[i+1]
		}
	}
	return strings.ReplaceAll(strings.Join(parts, element),
		"font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"), nil
}
