package main

import (
	"io"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// writeJSON writes the report for programs. Times of paced drives have names that
// begin with modelled_.
func (r *runner) writeJSON(w io.Writer) error {
	one := r.rows[0].runs[0]
	d := one.about
	var drives []map[string]any
	for _, x := range d.Drives {
		drives = append(drives, map[string]any{"name": x.Name, "path": x.Path})
	}
	doc := map[string]any{
		"workload": r.name, "about": one.what, "bytes": one.bytes, "seed": r.f.seed, "repeat": r.f.repeat,
		"page_bytes": uint64(d.PageSize), "engine": d.Engine, "program": one.form, "drives": drives,
		"t1":       map[string]any{"pages": d.T1.Pages, "bytes": uint64(d.T1.Bytes), "where": d.T1.Where, "why": d.T1.Why},
		"t2":       map[string]any{"pages": d.T2.Pages, "bytes": uint64(d.T2.Bytes), "where": d.T2.Where},
		"modelled": d.Modelled != "", "interrupted": r.interrupted, "complete": r.complete(),
	}
	if d.Moves != nil {
		doc["moves"] = map[string]any{"to_device": d.Moves.ToDevice, "to_host": d.Moves.ToHost}
	}
	if d.Modelled != "" {
		doc["model"] = d.Modelled
	}
	rows := []map[string]any{}
	for i := range r.rows {
		rows = append(rows, r.jsonRow(&r.rows[i]))
	}
	doc["rows"] = rows
	return writeJSON(w, doc)
}

// complete says whether every run of every policy ended well.
func (r *runner) complete() bool {
	for i := range r.rows {
		if x := &r.rows[i]; x.failed || len(x.runs) != r.f.repeat {
			return false
		}
	}
	return len(r.rows) == len(r.policies)
}

func (r *runner) jsonRow(x *runRow) map[string]any {
	one := x.runs[0]
	m := map[string]any{"policy": x.policy.label, "canonical": one.about.Policy, "runs": len(x.runs), "verified": x.result(r.f.verify) == "verified"}
	prefix := ""
	if r.modelled() != "" {
		prefix = "modelled_"
	}
	for _, c := range r.columns() {
		if !x.known(c) {
			continue
		}
		name, v := c.name, x.figures(c)
		if c.timed {
			name = prefix + name
			m[name+"_least"], m[name+"_most"] = v[0], v[len(v)-1]
		}
		m[name] = middle(v)
	}
	m[prefix+"setup_seconds"], m[prefix+"flush_seconds"] = one.setup.Seconds(), one.flush.Seconds()
	m[prefix+"verify_seconds"], m[prefix+"other_seconds"] = one.checked.Seconds(), one.other.Seconds()
	m["counters_with_setup"], m["paths"] = one.after.Counters, one.paths()
	m["counters"] = differences(one.after.Counters, one.before.Counters)
	m["ssd_reads_with_setup"] = one.after.Counters.SSDReads()
	m["moves_cpu_seconds"], m["moves_lost"] = one.end.MovesCPU.Seconds(), one.end.MovesLost
	m["crowded_out_of_t2"], m["compactions"], m["compaction_seconds"] = one.end.Crowded, one.end.Compactions, one.end.Compacting.Seconds()
	m["retries"], m["failed_requests"] = one.end.Retries, one.end.Failed
	if one.end.Reuse != nil {
		reuse := map[string]any{"placer": one.end.Reuse}
		if r.f.engine == lib.EngineGPU {
			reuse["samples"], reuse["dropped"], reuse["fits"] = one.end.ReuseSamples, one.end.ReuseDropped, one.end.ReuseFits
		}
		m["reuse"] = reuse
	}
	edges := map[string]any{}
	for i, name := range host.EdgeNames {
		e := one.end.Edges[i]
		edges[name] = map[string]any{"pages": e.Pages, "bytes": e.Bytes, "seconds": e.Time.Seconds(), "moves_by_log2_ns": e.Moves}
	}
	m["edges_with_setup_and_flush"] = edges
	if one.simulated != nil {
		m["simulated_counters_with_setup"], m["simulated_equal"] = *one.simulated, one.asSimulated(r.f.engine == lib.EngineGPU)
		if one.simulatedPlacer != nil {
			m["simulated_placer"] = one.simulatedPlacer
		}
	}
	if one.sample > 0 {
		m["simulated_ssd_reads_with_setup"], m["simulated_pages_one_in"] = one.estimate, one.sample
	}
	m["each_run"] = r.eachRun(x, prefix)
	if r.f.record != "" {
		m["recorded_accesses"], m["lost_accesses"] = one.records, one.lost
	}
	if one.timeline != nil {
		m["timeline"] = one.timeline
	}
	return m
}

// eachRun has the figures of every run. Recording slows the first one down.
func (r *runner) eachRun(x *runRow, prefix string) (list []map[string]any) {
	for i, one := range x.runs {
		m := map[string]any{"recorded": i == 0 && r.f.record != "", "verified": one.verified}
		for _, c := range r.columns() {
			name := c.name
			if c.timed {
				name = prefix + name
			}
			if x.known(c) {
				m[name] = c.pick(one)
			}
		}
		list = append(list, m)
	}
	return list
}

// differences are the counters that counted in between. What is dirty at the end is
// no difference.
func differences(after, before tier.Counters) map[string]uint64 {
	a, b, out := counterMap(after), counterMap(before), map[string]uint64{}
	for name, n := range a {
		out[name] = n - b[name]
	}
	out["final_dirty"] = after.FinalDirty
	return out
}

// counterMap gives the counters the names that replay's JSON has.
func counterMap(c tier.Counters) map[string]uint64 {
	return map[string]uint64{
		"accesses": c.Accesses, "t1_hits": c.T1Hits, "t2_hits": c.T2Hits, "t3_fetches": c.T3Fetches, "overwrites": c.Overwrites,
		"errors": c.Errors, "delayed_hits": c.Delayed, "evictions": c.Evictions, "keeps": c.Keeps, "demotions": c.Demotions,
		"copies_saved": c.CopiesSaved, "bypasses": c.Bypasses, "t2_evictions": c.T2Evictions, "writebacks": c.Writebacks,
		"final_dirty": c.FinalDirty, "prefetches": c.Prefetches, "prefetch_reads": c.PrefetchReads,
	}
}
