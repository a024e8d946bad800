package report

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/timed"
)

// csvField is one column of the CSV form: the name of a JSON field, with a
// dot for a field within a field, and its value.
type csvField struct {
	name string
	text func(r *sim.Result) string
}

func integer[N int | uint64](get func(r *sim.Result) N) func(r *sim.Result) string {
	return func(r *sim.Result) string { return strconv.FormatInt(int64(get(r)), 10) }
}

func count(get func(r *sim.Result) uint64) func(r *sim.Result) string {
	return func(r *sim.Result) string { return strconv.FormatUint(get(r), 10) }
}

// optional leaves the cell of a value that is absent empty.
func optional[V any](get func(r *sim.Result) *V, text func(V) string) func(r *sim.Result) string {
	return func(r *sim.Result) string {
		v := get(r)
		if v == nil {
			return ""
		}
		return text(*v)
	}
}

func formatUint(n uint64) string   { return strconv.FormatUint(n, 10) }
func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// csvFields holds every scalar of sim.Result; a test compares the two.
var csvFields = []csvField{
	{"trace.name", func(r *sim.Result) string { return r.Trace.Name }},
	{"trace.format", func(r *sim.Result) string { return r.Trace.Format }},
	{"trace.compression", func(r *sim.Result) string { return r.Trace.Compression }},
	{"trace.order", func(r *sim.Result) string { return r.Trace.Order }},
	{"trace.page_size", count(func(r *sim.Result) uint64 { return r.Trace.PageSize })},
	{"trace.accesses", count(func(r *sim.Result) uint64 { return r.Trace.Accesses })},
	{"trace.pages", integer(func(r *sim.Result) int { return r.Trace.Pages })},
	{"trace.requests", count(func(r *sim.Result) uint64 { return r.Trace.Requests })},
	{"trace.writes", count(func(r *sim.Result) uint64 { return r.Trace.Writes })},
	{"trace.prefetches", count(func(r *sim.Result) uint64 { return r.Trace.Prefetches })},
	{"policy", func(r *sim.Result) string { return r.Policy }},
	{"gpu_frames", integer(func(r *sim.Result) int { return r.GPUFrames })},
	{"host_frames", integer(func(r *sim.Result) int { return r.HostFrames })},
	{"seed", count(func(r *sim.Result) uint64 { return r.Seed })},
	{"complete", func(r *sim.Result) string { return strconv.FormatBool(r.Complete) }},
	{"accesses", count(func(r *sim.Result) uint64 { return r.Accesses })},
	{"t1_hits", count(func(r *sim.Result) uint64 { return r.T1Hits })},
	{"t2_hits", count(func(r *sim.Result) uint64 { return r.T2Hits })},
	{"t3_fetches", count(func(r *sim.Result) uint64 { return r.T3Fetches })},
	{"overwrites", count(func(r *sim.Result) uint64 { return r.Overwrites })},
	{"errors", count(func(r *sim.Result) uint64 { return r.Errors })},
	{"delayed_hits", count(func(r *sim.Result) uint64 { return r.Delayed })},
	{"evictions", count(func(r *sim.Result) uint64 { return r.Evictions })},
	{"keeps", count(func(r *sim.Result) uint64 { return r.Keeps })},
	{"demotions", count(func(r *sim.Result) uint64 { return r.Demotions })},
	{"copies_saved", count(func(r *sim.Result) uint64 { return r.CopiesSaved })},
	{"bypasses", count(func(r *sim.Result) uint64 { return r.Bypasses })},
	{"t2_evictions", count(func(r *sim.Result) uint64 { return r.T2Evictions })},
	{"writebacks", count(func(r *sim.Result) uint64 { return r.Writebacks })},
	{"final_dirty", count(func(r *sim.Result) uint64 { return r.FinalDirty })},
	{"prefetches", count(func(r *sim.Result) uint64 { return r.Prefetches })},
	{"prefetch_reads", count(func(r *sim.Result) uint64 { return r.PrefetchReads })},
	{"ssd_reads", count(func(r *sim.Result) uint64 { return r.SSDReads })},
	{"bound_ssd_reads", optional(func(r *sim.Result) *uint64 { return r.BoundReads }, formatUint)},
	{"prefix_hits", optional(func(r *sim.Result) *uint64 { return r.PrefixHits }, formatUint)},
	{"model", func(r *sim.Result) string { return r.Model }},
	{"modelled_seconds", optional(func(r *sim.Result) *float64 { return r.ModelledSeconds }, formatFloat)},
	{"modelled_serial_seconds", optional(func(r *sim.Result) *float64 { return r.ModelledSerial }, formatFloat)},
}

// timedFields follow where a result has virtual time.
var timedFields = []csvField{
	{"timed.path", timedText(func(t *timed.Result) string { return t.Path })},
	{"timed.in_flight", timedText(func(t *timed.Result) string { return strconv.Itoa(t.InFlight) })},
	{"timed.modelled_seconds", timedText(func(t *timed.Result) string { return formatFloat(t.Seconds) })},
	{"timed.modelled_flush_seconds", timedText(func(t *timed.Result) string { return formatFloat(t.FlushSeconds) })},
	{"timed.modelled_bound_seconds", timedText(func(t *timed.Result) string { return formatFloat(t.BoundSeconds) })},
	{"timed.delayed_hits", timedText(func(t *timed.Result) string { return formatUint(t.Delayed) })},
	{"timed.bottleneck", timedText(func(t *timed.Result) string { return t.Bottleneck })},
}

func timedText(get func(t *timed.Result) string) func(r *sim.Result) string {
	return func(r *sim.Result) string {
		if r.Timed == nil {
			return ""
		}
		return get(r.Timed)
	}
}

// csvColumns are the columns of r.
func (r *Report) csvColumns() []csvField {
	for i := range r.Results {
		if r.Results[i].Timed != nil {
			return slices.Concat(csvFields, timedFields)
		}
	}
	return csvFields
}

// CSV writes a line of names and one line a result, in order. The names are
// those of the JSON form with a dot between levels; modelled_edges and placer
// are left out. A value that is absent is an empty cell. Errors are those of w.
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	fields := r.csvColumns()
	line := make([]string, len(fields))
	for i, f := range fields {
		line[i] = f.name
	}
	if err := c.Write(line); err != nil {
		return err
	}
	for i := range r.Results {
		for k, f := range fields {
			line[k] = f.text(&r.Results[i])
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
