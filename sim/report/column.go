package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
)

// column is one quantity of a result, in tables for people.
type column struct {
	head [2]string // two lines, so that narrow figures get narrow columns
	help string    // its definition
	show func(r *sim.Result) bool
	cell func(r *sim.Result) string
}

// none stands for a quantity that does not apply.
const none = "-"

func always(*sim.Result) bool             { return true }
func hasHost(r *sim.Result) bool          { return r.HostFrames > 0 }
func hasBound(r *sim.Result) bool         { return r.BoundReads != nil }
func hasPrefetchReads(r *sim.Result) bool { return r.SSDReads != r.T3Fetches }
func hasWrites(r *sim.Result) bool        { return r.Trace.Writes > 0 || r.Writebacks+r.FinalDirty > 0 }

// columns are the quantities in the order of the table; a column is left out
// where it says nothing about any result.
var columns = []column{
	{[2]string{"T1", "hits"}, "accesses that found their page in GPU memory, or on its way there", always,
		func(r *sim.Result) string { return units.FormatCount(r.T1Hits) }},
	{[2]string{"T2", "hits"}, "accesses whose page came from host memory", hasHost,
		func(r *sim.Result) string { return units.FormatCount(r.T2Hits) }},
	{[2]string{"SSD", "fetches"}, "accesses whose page was read from SSD (T3)", always,
		func(r *sim.Result) string { return units.FormatCount(r.T3Fetches) }},
	{[2]string{"SSD", "reads"}, "pages read from SSD: SSD fetches, and prefetches that read (JSON: ssd_reads = t3_fetches + prefetch_reads)", hasPrefetchReads,
		func(r *sim.Result) string { return units.FormatCount(r.SSDReads) }},
	{[2]string{"over-", "writes"}, "writes of a whole page that was in neither tier: no read needed",
		func(r *sim.Result) bool { return r.Overwrites > 0 },
		func(r *sim.Result) string { return units.FormatCount(r.Overwrites) }},
	{[2]string{"", "errors"}, "accesses that got an error",
		func(r *sim.Result) bool { return r.Errors > 0 },
		func(r *sim.Result) string { return units.FormatCount(r.Errors) }},
	{[2]string{"miss", "%"}, "SSD fetches per 100 accesses", always,
		func(r *sim.Result) string { return percent(r.T3Fetches, r.Accesses, 2) }},
	{[2]string{"bound", "SSD reads"}, "the fewest SSD reads, those of prefetches included, that any policy can reach with T1 + T2 frames (Belady's MIN); no policy that " +
		"must decide without knowing the future gets there", hasBound,
		func(r *sim.Result) string {
			if r.BoundReads == nil {
				return none
			}
			return units.FormatCount(*r.BoundReads)
		}},
	{[2]string{"over", "bound %"}, "SSD reads above the bound, per 100 of the bound", hasBound, overBound},
	{[2]string{"demo-", "tions"}, "victims of T1 that moved to host memory", hasHost,
		func(r *sim.Result) string { return units.FormatCount(r.Demotions) }},
	{[2]string{"by-", "passes"}, "victims of T1 that skipped host memory", hasHost,
		func(r *sim.Result) string { return units.FormatCount(r.Bypasses) }},
	{[2]string{"SSD", "writes"}, "dirty pages written to SSD, those included that are still dirty at the end and that a flush would write", hasWrites,
		func(r *sim.Result) string { return units.FormatCount(r.Writebacks + r.FinalDirty) }},
	{[2]string{"prefix", "hit %"}, "accesses before the first one of their request that needed the SSD, per 100 accesses: what a server of " +
		"prefixes gains", func(r *sim.Result) bool { return r.PrefixHits != nil },
		func(r *sim.Result) string {
			if r.PrefixHits == nil {
				return none
			}
			return percent(*r.PrefixHits, r.Accesses, 2)
		}},
	{[2]string{"modelled", "time"}, "modelled, not measured: the time that the model's machine would need if all its edges worked at " +
		"the same time, so that the slowest one binds",
		func(r *sim.Result) bool { return r.ModelledSeconds != nil },
		func(r *sim.Result) string {
			if r.ModelledSeconds == nil {
				return none
			}
			return seconds(*r.ModelledSeconds)
		}},
}

// shown picks the columns that say something about any of rows.
func shown(rows []row) []column {
	var out []column
	for _, c := range slices.Concat(columns, timedColumns) {
		for _, r := range rows {
			if c.show(r.Result) {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// percent is part in per cent of whole.
func percent(part, whole uint64, digits int) string {
	if whole == 0 {
		return none
	}
	return fmt.Sprintf("%.*f", digits, 100*float64(part)/float64(whole))
}

// overBound is the distance of a policy to Belady's bound.
func overBound(r *sim.Result) string {
	if r.BoundReads == nil {
		return none
	}
	bound := *r.BoundReads
	if bound == 0 {
		if r.SSDReads == 0 {
			return "+0.0"
		}
		return none
	}
	return fmt.Sprintf("%+.1f", 100*(float64(r.SSDReads)-float64(bound))/float64(bound))
}

// timeUnit is a unit of modelled times and how many make a second.
type timeUnit struct {
	name string
	per  float64
}

// timeUnits from the largest down.
var timeUnits = []timeUnit{{"s", 1}, {"ms", 1e3}, {"µs", 1e6}, {"ns", 1e9}}

// unitOf is the largest unit of which s seconds are at least one.
func unitOf(s float64) timeUnit {
	for _, u := range timeUnits {
		if s*u.per >= 0.9995 { // which three digits write as 1.00
			return u
		}
	}
	return timeUnits[len(timeUnits)-1]
}

// seconds writes a time with three significant digits and its unit.
func seconds(s float64) string {
	if s <= 0 {
		return "0 s"
	}
	u := unitOf(s)
	v := s * u.per
	switch {
	case v >= 999.5:
		return units.FormatCount(uint64(math.Round(v))) + " " + u.name
	case v < 0.0005:
		return "0 " + u.name
	}
	digits := 2 - int(math.Floor(math.Log10(v*1.0005))) // 9.996 is 10.0
	return fmt.Sprintf("%.*f %s", min(max(digits, 0), 3), v, u.name)
}

// title is the column's name in one line.
func (c *column) title() string {
	if first, ok := strings.CutSuffix(c.head[0], "-"); ok {
		return first + c.head[1]
	}
	return strings.TrimSpace(c.head[0] + " " + c.head[1])
}
