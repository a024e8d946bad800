package svgtext

import (
	"fmt"
	"image/color"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func TestTextsKeepTheirWidths(t *testing.T) {
	c := New(200, 100)
	dc := draw.New(c)
	sty := text.Style{Color: color.Gray{1}, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, 10), Handler: plot.DefaultTextHandler}
	texts := []string{"a title", "", "<text x", "iiii"}
	for i, s := range texts {
		dc.FillText(sty, vg.Point{X: 10, Y: vg.Length(20 * i)}, s)
	}
	doc, err := c.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"a title", "<text x", "iiii"} {
		escaped := strings.ReplaceAll(s, "<", "&lt;")
		head, _, found := strings.Cut(doc, ">"+escaped+"<")
		want := fmt.Sprintf(`<text textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, sty.Width(s).Points())
		if last := strings.LastIndex(head, "<text"); !found || last < 0 || !strings.HasPrefix(head[last:], want) {
			t.Errorf("%q has no %s in %s", s, want, doc)
		}
	}
	if strings.Contains(doc, `textLength="0"`) || strings.Contains(doc, "family:Liberation Sans;") || !strings.Contains(doc, "'Liberation Sans',Arial") {
		t.Error(doc)
	}
}
