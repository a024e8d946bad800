package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/tritier/tritier/internal/units"
)

//go:embed tune.tmpl
var tuneText string

var parseTunePage = sync.OnceValues(func() (*template.Template, error) {
	return template.New("tune").Parse(tuneText)
})

// tunePage is what the template shows.
type tunePage struct {
	Style                 template.CSS
	About, Command, Saved string
	Interrupted           bool
	Traces                []tuneTrace
	Facts                 []named
	Best                  string
	Verdict               []string
	Scale, Legend         string
	Scores                template.HTML
	Head                  []string
	Rows                  [][]string
	Changes               template.HTML
	Idle                  string
	Sensitivities         []tuneSetting
	Sizes                 template.HTML
	WrongSizes            []named
	Minimum               string
	Candidates            []named
}

type tuneTrace struct{ Name, Identity, Volume, Train, HeldOut string }
type tuneSetting struct{ Key, Value, Points string }
type named struct{ Name, Text string }

// HTML writes one page that holds everything, style and charts included, and
// loads nothing from anywhere. Errors are those of w.
func (t *Tune) HTML(w io.Writer) error {
	page, err := parseTunePage()
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	p := tunePage{Style: pageStyle(), About: t.About, Command: t.Command, Saved: t.Saved, Interrupted: t.Interrupted}
	for _, tr := range t.Traces {
		p.Traces = append(p.Traces, tuneTrace{Printable(tr.Name), identity(tr.TraceInfo), volume(tr.TraceInfo),
			units.FormatCount(uint64(tr.Train)), units.FormatCount(uint64(tr.HeldOut))})
	}
	p.Facts = t.facts()
	if best := t.Winner(); best != nil {
		p.Best, p.Verdict = best.Policy, t.verdict()
		p.fillRanking(t)
		p.fillExamined(t)
		if err := p.draw(t); err != nil {
			return err
		}
	}
	return page.Execute(w, p)
}

// pageStyle is the style of the pages of replays, for all pages.
func pageStyle() template.CSS {
	_, rest, _ := strings.Cut(pageText, "<style>")
	css, _, _ := strings.Cut(rest, "</style>")
	return template.CSS(css)
}

func (t *Tune) facts() []named {
	var out []named
	for i, s := range t.Sizes {
		out = append(out, named{map[bool]string{true: "sizes"}[i == 0], t.sizeText(s)})
	}
	goal := t.goal()
	for _, n := range t.goalNotes()[1:] {
		goal += "; " + n
	}
	return append(out, named{"goal", goal}, named{"search", t.effort()}, named{"seed", fmt.Sprint(t.Seed)})
}

func (p *tunePage) fillRanking(t *Tune) {
	lines := t.rankingLines(0)
	p.Head, p.Rows = lines[0], lines[1:min(len(lines), maxRanked+1)]
	p.Scale = "Scores are relative to LRU in both tiers at the first size, on the same part of the trace: lower is better. Best in training first."
	if !t.Interrupted {
		p.Legend = "+/-: half the range over runs with different seeds. Bound: no policy can be below. Over bound: SSD reads over the fewest possible (Belady), held out. " +
			"Miniature: the range of the score on the largest miniatures, over seeds of sampling. * a placer as it comes, for comparison; ! breaks a constraint."
	}
	for i := range t.Ranking[:len(p.Rows)] {
		p.Candidates = append(p.Candidates, named{t.nameOf(&t.Ranking[i], 0), t.Ranking[i].Policy})
	}
}

func (p *tunePage) fillExamined(t *Tune) {
	var idle []string
	for _, s := range t.Sensitivity {
		p.Sensitivities = append(p.Sensitivities, tuneSetting{s.Key, shortValue(s.Value), strings.Join(pointTexts(s), ", ")})
		if !matters(s) {
			idle = append(idle, s.Key)
		}
	}
	p.Idle = strings.Join(idle, ", ")
	for _, w := range t.WrongSizes {
		p.WrongSizes = append(p.WrongSizes, named{w.What, changeText(w)})
	}
	if t.SafeMinimum != nil {
		p.Minimum = strings.Join(t.minimum(), "; ")
	}
}

// draw adds the charts of a complete run.
func (p *tunePage) draw(t *Tune) error {
	if t.Interrupted {
		return nil
	}
	for _, c := range []struct {
		into  *template.HTML
		make  func(*Tune) (figure, bool)
		label string
	}{
		{&p.Scores, scoreFigure, "scores of the finalists in training and held out, with bounds"},
		{&p.Changes, changeFigure, "change of the score by setting"},
		{&p.Sizes, sizeFigure, "change of the score with other tier sizes"},
	} {
		f, ok := c.make(t)
		if !ok {
			continue
		}
		svg, err := f.inline(c.label)
		if err != nil {
			return err
		}
		*c.into = template.HTML(svg)
	}
	return nil
}
