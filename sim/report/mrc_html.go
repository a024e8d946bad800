package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"sync"
)

//go:embed mrc.tmpl
var mrcText string

// parseMRC parses the page once, when the first one is written. Its style is that
// of the other page.
var parseMRC = sync.OnceValues(func() (*template.Template, error) {
	return template.New("mrc").Parse(mrcText)
})

// mrcPage is what the template shows.
type mrcPage struct {
	*Curves
	Style template.CSS
	Parts []mrcPart
}

// mrcPart is one trace.
type mrcPart struct {
	Name, Identity, Volume string
	Methods, Warnings      []string
	Figure                 template.HTML // empty when there is nothing to draw
	Sizes                  [][]string    // heading first
	Readings               []mrcReading
	Policies               []policy
}

type mrcReading struct {
	Title string
	Rows  [][]string
}

// HTML writes one page that holds everything, style and charts included, and
// loads nothing from anywhere. Errors are those of w.
func (c *Curves) HTML(w io.Writer) error {
	t, err := parseMRC()
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	p := mrcPage{Curves: c, Style: pageStyle()}
	for i := range c.Traces {
		part, err := newMRCPart(&c.Traces[i])
		if err != nil {
			return err
		}
		p.Parts = append(p.Parts, part)
	}
	return t.Execute(w, p)
}

// pageSizes is how many sizes the page lists.
const pageSizes = 64

func newMRCPart(t *TraceCurves) (mrcPart, error) {
	info := t.info()
	p := mrcPart{Name: Printable(info.Name), Identity: identity(info), Volume: volume(info),
		Methods: t.methods(), Warnings: t.warnings(), Sizes: t.missRows(pageSizes)}
	if f, ok := t.figure(); ok {
		svg, err := f.inline("SSD reads over the size of the tiers, " + p.Name)
		if err != nil {
			return p, err
		}
		p.Figure = template.HTML(svg)
	}
	for _, r := range t.readingRows() {
		p.Readings = append(p.Readings, mrcReading{r.title, r.rows})
	}
	for i, c := range t.Curves {
		if !c.Bound {
			p.Policies = append(p.Policies, policy{Label: t.Labels[i], Canonical: c.Policy})
		}
	}
	return p, nil
}
