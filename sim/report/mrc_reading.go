package report

import (
	"fmt"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/mrc"
)

// readingPart is a table of what more memory buys.
type readingPart struct {
	title string
	rows  [][]string
}

// readingRows are the tables of the readings: first what there is, then each
// offer.
func (t *TraceCurves) readingRows() (out []readingPart) {
	if len(t.Readings) == 0 {
		return nil
	}
	size, accesses := t.info().PageSize, t.info().Accesses
	first := t.Readings[0]
	now := readingPart{title: "Now: " + pairText(first.Now.Pair, size), rows: [][]string{{"policy", "T1 hits %", "T2 hits %", "SSD reads", "% of accesses"}}}
	for i, r := range t.Readings {
		now.rows = append(now.rows, append([]string{t.readingLabel(i)}, pointCells(r.Now, accesses)...))
	}
	out = append(out, now)
	for k, o := range first.Offers {
		part := readingPart{title: "With " + moreText(o.More, size) + ": " + pairText(o.Then.Pair, size),
			rows: [][]string{{"policy", "T1 hits %", "T2 hits %", "SSD reads", "% of accesses", "fewer SSD reads", "%"}}}
		for i, r := range t.Readings {
			if k >= len(r.Offers) {
				continue
			}
			cells := append([]string{t.readingLabel(i)}, pointCells(r.Offers[k].Then, accesses)...)
			part.rows = append(part.rows, append(cells, savedCells(r.Offers[k].Saved, r.Now.SSDReads)...))
		}
		out = append(out, part)
	}
	return out
}

// readingLabel names the policy of a reading.
func (t *TraceCurves) readingLabel(i int) string {
	for k, c := range t.Curves {
		if c.Policy == t.Readings[i].Policy && c.Bound == t.Readings[i].Bound {
			return t.Labels[k]
		}
	}
	return t.Readings[i].Policy
}

func pointCells(p mrc.Point, accesses uint64) []string {
	hits := func(n *uint64) string {
		if n == nil {
			return none
		}
		return percent(*n, accesses, 2)
	}
	return []string{hits(p.T1Hits), hits(p.T2Hits), units.FormatCount(p.SSDReads), fmt.Sprintf("%.2f", 100*p.MissRatio)}
}

func savedCells(saved int64, now uint64) []string {
	sign, n := "", saved
	if n < 0 {
		sign, n = "-", -n
	}
	share := none
	if now > 0 {
		share = strings.Replace(fmt.Sprintf("%.1f", 100*float64(saved)/float64(now)), "-0.0", "0.0", 1)
	}
	return []string{sign + units.FormatCount(uint64(n)), share}
}

func pairText(p mrc.Pair, pageSize uint64) string {
	return "T1 " + tierText(p.GPU, pageSize) + ", T2 " + tierText(p.Host, pageSize)
}

func moreText(p mrc.Pair, pageSize uint64) string {
	var parts []string
	if p.GPU > 0 {
		parts = append(parts, bytesText(uint64(p.GPU), pageSize)+" more GPU memory")
	}
	if p.Host > 0 {
		parts = append(parts, bytesText(uint64(p.Host), pageSize)+" more host memory")
	}
	return strings.Join(parts, " and ")
}
