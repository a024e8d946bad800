package main

import (
	"fmt"
	"strings"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/units"
)

// The bars that --check compares with.
const (
	ratioBar      = 1.10 // of the chooser's time over the best path's
	barPage       = 64 << 10
	barPages      = 256 // from so many pages on
	shareBar      = 0.88
	barPagesMany  = 1024 // from so many on, one way
	shareBarMany  = 0.92
	shareBarBoth  = 0.85
	smallBarMicro = 2.0 // us of a small batch above the driver's own calls
)

// copyBar is one figure of the summary and what it is held to.
type copyBar struct {
	Name     string  `json:"name"`
	Where    string  `json:"where,omitempty"` // the row that it comes from
	Measured bool    `json:"measured"`
	Value    float64 `json:"value"`
	Limit    float64 `json:"limit"`    // 0: a figure for information
	AtLeast  bool    `json:"at_least"` // else at most
	Unit     string  `json:"unit"`
}

func (b *copyBar) met() bool {
	if b.Limit == 0 {
		return true
	}
	if b.AtLeast {
		return b.Measured && b.Value >= b.Limit
	}
	return b.Measured && b.Value <= b.Limit
}

// The units of bars.
const (
	unitRatio  = "of the best path's time"
	unitShare  = "of the link"
	unitMicros = "us"
)

func (b *copyBar) number(v float64) string {
	switch b.Unit {
	case unitRatio:
		return fmt.Sprintf("%.3f", v)
	case unitMicros:
		return fmt.Sprintf("%.1f us", v)
	}
	return fmt.Sprintf("%.3f of the link", v)
}

func (b *copyBar) valueText() string {
	if !b.Measured {
		return "-"
	}
	if b.Unit == unitMicros && b.Value > 0 {
		return "+" + b.number(b.Value)
	}
	return b.number(b.Value)
}

func (b *copyBar) limitText() string {
	if b.Limit == 0 {
		return ""
	}
	if b.AtLeast {
		return fmt.Sprintf("at least %.2f", b.Limit)
	}
	return fmt.Sprintf("at most %.2f", b.Limit)
}

func (b *copyBar) verdict() string {
	switch {
	case !b.Measured:
		return "not measured"
	case b.Limit == 0:
		return ""
	case b.met():
		return "met"
	}
	return "MISSED"
}

// bars are the figures that tritier is held to, of the chooser alone.
func (r *copyReport) bars() []copyBar {
	if !r.chooser {
		return nil
	}
	bars := []copyBar{
		r.worstRatio("chooser over the best path, one way, worst", ratioBar, copyToDevice, copyToHost),
		r.worstRatio("chooser over the best path, both ways, worst", 0, copyBoth),
	}
	for d := range copyBoth + 1 {
		bars = append(bars, r.shares(d)...)
	}
	return append(bars,
		r.worstSmall("one page above the driver's call, worst", 1, 1),
		r.worstSmall("2 to 8 pages above the driver's calls, worst", 2, 8))
}

// worstRatio is the row where the chooser loses most against the best path.
func (r *copyReport) worstRatio(name string, limit float64, directions ...copyDirection) copyBar {
	b := copyBar{Name: name, Limit: limit, Unit: unitRatio}
	for i := range r.rows {
		x := &r.rows[i]
		v, ok := x.ratio()
		if !ok || x.direction != directions[0] && x.direction != directions[len(directions)-1] || b.Measured && v <= b.Value {
			continue
		}
		best := x.best()
		b.Measured, b.Value = true, v
		b.Where = fmt.Sprintf("%s %s x %s: %s us by %s, best %s us by %s", x.direction, shortBytes(x.page), units.FormatCount(uint64(x.pages)),
			micros(x.chooser.median), x.chooser.path, micros(best.median), best.path)
	}
	return b
}

// shares are the parts of the link's rate with pages of 64 KiB. The numbers of
// pages that the bars begin at are listed even when they were not measured.
func (r *copyReport) shares(d copyDirection) (bars []copyBar) {
	missing := map[int]bool{barPages: true, barPagesMany: true}
	for i := range r.rows {
		x := &r.rows[i]
		if x.direction != d || x.page != barPage || x.pages < barPages || x.chooser == nil {
			continue
		}
		delete(missing, x.pages)
		b := shareBarOf(d, x.pages)
		b.Measured, b.Value = true, r.share(x)
		b.Where = fmt.Sprintf("%s GB/s by %s", rateText(x.gbps(x.chooser)), x.chooser.path)
		bars = append(bars, b)
	}
	for _, n := range []int{barPages, barPagesMany} {
		if missing[n] {
			bars = append(bars, shareBarOf(d, n))
		}
	}
	return bars
}

func shareBarOf(d copyDirection, pages int) copyBar {
	b := copyBar{Name: fmt.Sprintf("64KiB x %s %s", units.FormatCount(uint64(pages)), d.text()), Limit: shareBar, AtLeast: true, Unit: unitShare}
	switch {
	case d == copyBoth:
		b.Limit = shareBarBoth
	case pages >= barPagesMany:
		b.Limit = shareBarMany
	}
	return b
}

// worstSmall is the small batch that takes longest beyond the driver's calls.
func (r *copyReport) worstSmall(name string, from, to int) copyBar {
	b := copyBar{Name: name, Limit: smallBarMicro, Unit: unitMicros}
	var worst *copyeng.Small
	for i := range r.small {
		s := &r.small[i]
		if s.Pages >= from && s.Pages <= to && (worst == nil || s.Excess() > worst.Excess()) {
			worst = s
		}
	}
	if worst == nil {
		return b
	}
	b.Measured, b.Value = true, microseconds(worst.Excess())
	b.Where = fmt.Sprintf("%s %s x %d: %s us by %s, driver %s us by %s", worst.Dir, shortBytes(worst.Page), worst.Pages,
		micros(worst.Queue.Median()), worst.Queue.Path, micros(worst.Best().Median()), worst.Best().Path)
	return b
}

// verdictOf is the error that bars add up to. Bars that the lists do not cover
// are no failure, but a check of nothing is.
func verdictOf(bars []copyBar) error {
	var missed []string
	measured := 0
	for i := range bars {
		b := &bars[i]
		if !b.Measured {
			continue
		}
		measured++
		if !b.met() {
			missed = append(missed, fmt.Sprintf("%s: %s, %s", b.Name, b.number(b.Value), b.limitText()))
		}
	}
	switch {
	case measured == 0:
		return fmt.Errorf("--check: no bar is about what was measured: add pages of 64KiB, 256 or more at once, or other paths than the chooser")
	case len(missed) > 0:
		return fmt.Errorf("--check: %d of %s missed: %s", len(missed), plural(uint64(measured), "bar"), strings.Join(missed, "; "))
	}
	return nil
}
