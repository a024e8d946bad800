package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"sync"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
)

//go:embed page.tmpl
var pageText string

// parsePage parses the page once, when the first one is written: a run without
// a page must not pay for it.
var parsePage = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(pageText)
})

// page is what the template shows.
type page struct {
	About, Command, Seeds string
	Incomplete            []string
	Interrupted           bool
	Traces                []pageTrace
	Policies              []policy
	Notes                 []string
	Columns               []pageColumn
	Model                 *servicetime.Model
	Figures               []modelFigure
	Warning               string // about the model
}

type pageTrace struct {
	Name, Identity, Volume string
	Curves                 template.HTML // empty for a single size
	Sizes                  []pageSize
}

type pageSize struct {
	T1, T2, Summary string
	Bars            template.HTML
	Columns         []pageColumn
	Rows            [][]string
}

type pageColumn struct{ Name, Help string }

// HTML writes one page that holds everything, style and charts included, and
// loads nothing from anywhere. Errors are those of w.
func (r *Report) HTML(w io.Writer) error {
	t, err := parsePage()
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	p := page{About: r.About, Command: r.Command, Seeds: r.seeds(), Incomplete: r.cut(), Interrupted: r.Interrupted,
		Policies: r.policies(), Notes: r.notes(), Model: r.Model, Figures: append(modelFigures(r.Model), r.pathFigures()...)}
	if r.drivesOnly() {
		p.Warning = drivesOnlyText
	}
	var all []row
	for _, g := range r.groups() {
		pt, err := newPageTrace(&g)
		if err != nil {
			return err
		}
		p.Traces = append(p.Traces, pt)
		all = append(all, g.rows()...)
	}
	p.Columns = pageColumns(shown(all))
	return t.Execute(w, p)
}

func newPageTrace(g *traceGroup) (pageTrace, error) {
	t := pageTrace{Name: Printable(g.info.Name), Identity: identity(g.info), Volume: volume(g.info)}
	if len(g.sizes) > 1 {
		svg, err := curveFigure(g).inline("SSD reads over the size of the tiers, " + Printable(g.info.Name))
		if err != nil {
			return t, err
		}
		t.Curves = template.HTML(svg)
	}
	cols := shown(g.rows())
	for _, s := range g.sizes {
		svg, err := barFigure(g.info, s).inline("where the accesses were served, " + subtitle(g.info, s.gpu, s.host))
		if err != nil {
			return t, err
		}
		ps := pageSize{T1: tierText(s.gpu, g.info.PageSize), T2: tierText(s.host, g.info.PageSize), Summary: summary(s),
			Bars: template.HTML(svg), Columns: pageColumns(cols)}
		for _, r := range s.rows {
			ps.Rows = append(ps.Rows, cells(r, cols))
		}
		t.Sizes = append(t.Sizes, ps)
	}
	return t, nil
}

// summary says in a sentence which policy reads least from SSD.
func summary(s sizeGroup) string {
	best := -1
	for i, r := range s.rows {
		if r.Complete && (best < 0 || r.SSDReads < s.rows[best].SSDReads) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	r := s.rows[best]
	text := fmt.Sprintf("Fewest SSD reads: %s with %s", r.label, units.FormatCount(r.SSDReads))
	if share := percent(r.T3Fetches, r.Accesses, 1); share != none {
		text += fmt.Sprintf(" (%s %% of the accesses miss)", share)
	}
	if over := overBound(r.Result); over != none {
		text += fmt.Sprintf(", %s %% against Belady's bound of %s", over, units.FormatCount(*r.BoundReads))
	}
	return text + "."
}

func pageColumns(cols []column) []pageColumn {
	out := make([]pageColumn, len(cols))
	for i, c := range cols {
		out[i] = pageColumn{Name: c.title(), Help: c.help}
	}
	return out
}

// modelFigure is one number of the model with its provenance.
type modelFigure struct{ Where, What, Value, Kind, Source string }

// modelFigures lists every number that the modelled times come from.
func modelFigures(m *servicetime.Model) []modelFigure {
	if m == nil {
		return nil
	}
	var out []modelFigure
	add := func(where, what string, f *servicetime.Figure) {
		if f != nil {
			out = append(out, modelFigure{where, what, strconv.FormatFloat(f.Value, 'g', -1, 64), string(f.Kind), f.Source})
		}
	}
	edge := func(where string, e servicetime.Edge) {
		add(where, "latency, ns", &e.LatencyNS)
		add(where, "bandwidth, bytes/s", &e.Bandwidth)
		add(where, "operations/s", e.IOPS)
		add(where, "in flight", &e.Concurrency)
		add(where, "bytes an access", e.AccessBytes)
		add(where, "controller, ns a command", e.ControllerNS)
	}
	if m.GPU != nil {
		edge("T1 access", m.GPU.T1)
		edge("T2 to T1", m.GPU.T2T1)
		edge("T1 to T2", m.GPU.T1T2)
	}
	for _, name := range sortedNames(m.Links) {
		l := m.Links[name]
		add("link "+name, "bandwidth, bytes/s", &l.Bandwidth)
	}
	edge("read of one drive", m.Drives.Read)
	edge("write of one drive", m.Drives.Write)
	if m.Initiator != nil {
		add("initiator", "ns a command", &m.Initiator.CostNS)
		add("initiator", "threads", &m.Initiator.Threads)
	}
	return out
}
