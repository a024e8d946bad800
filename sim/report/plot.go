package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Formats are the file formats of Plot.
var Formats = []string{"svg", "png"}

// figures are the charts of the whole report: for each trace curves when there
// are several sizes, else bars.
func (r *Report) figures() []figure {
	var out []figure
	for _, g := range r.groups() {
		if len(g.sizes) > 1 {
			out = append(out, curveFigure(&g))
		} else {
			out = append(out, barFigure(g.info, g.sizes[0]))
		}
	}
	return out
}

// maxFigures bounds the height of one picture: beyond it neither PNG viewers
// nor people cope.
const maxFigures = 40

// Plot writes one picture in a format of Formats: for each trace bars of where
// the accesses were served, or curves over the sizes when there are several.
// Errors are those of w, or say that there is nothing to draw.
func (r *Report) Plot(w io.Writer, format string) error {
	figs := r.figures()
	if len(figs) == 0 {
		return errors.New("report: no results to draw")
	}
	if len(figs) > maxFigures {
		return fmt.Errorf("report: %d traces are too many for one picture (at most %d): draw them in several runs, or use the HTML page",
			len(figs), maxFigures)
	}
	f := stack(figs)
	switch format {
	case "png":
		return f.png(w)
	case "svg":
		doc, err := f.svg()
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, doc)
		return err
	}
	return fmt.Errorf("report: no picture format %q; formats are %s", format, strings.Join(Formats, ", "))
}
