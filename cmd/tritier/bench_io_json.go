package main

import (
	"io"
	"time"

	"github.com/tritier/tritier/libnvm/drive"
)

// isSoft says whether service threads are behind a drive.
func isSoft(u drive.URI) bool { return u.Scheme != drive.PCI }

// json writes the report for programs. Figures of paced drives have names that
// begin with modelled_.
func (r *ioReport) json(w io.Writer) error {
	doc := map[string]any{
		"drives": r.about, "date": r.date.Format(time.RFC3339), "seed": r.f.seed, "area_bytes": r.area, "runs": r.f.runs,
		"modelled": r.model != "", "verified": r.verifiedAll(), "interrupted": r.interrupted, "complete": !r.failed && !r.interrupted && r.whole() == len(r.cells),
	}
	if r.ios > 0 {
		doc["run_ios"] = r.ios
	} else {
		doc["run_seconds"] = r.f.seconds
	}
	if r.model != "" {
		doc["model"] = r.model
	}
	if r.dev != nil {
		doc["gpu"], doc["cuda"], doc["pcie"] = gpuIdentityOf(r.dev), r.dev.Driver().Version().String(), r.pcie
	}
	if r.why != "" {
		doc["note"] = r.why
	}
	if r.havePath {
		doc["path"] = r.jsonPath()
	}
	if r.mailbox > 0 {
		doc["mailbox_round_trip_ns"] = r.mailbox.Nanoseconds()
	}
	if r.faults != nil {
		doc["faults"], doc["fault_hits"] = r.f.faults, r.faults.fired()
		doc["errors_as_injected"] = r.faults.judge(r.errorsSeen(), r.f.timeout, r.f.depth-1) == nil
	}
	rows := []map[string]any{}
	for i := range r.rows {
		rows = append(rows, r.jsonRow(&r.rows[i]))
	}
	doc["rows"] = rows
	return writeJSON(w, doc)
}

func (r *ioReport) jsonPath() map[string]any {
	blockers := []map[string]any{}
	for _, b := range r.path.Blockers {
		m := map[string]any{"of": b.Of, "on": b.On, "reason": b.Reason}
		if b.Remedy != "" {
			m["remedy"] = b.Remedy
		}
		if b.Err != nil {
			m["error"] = b.Err.Error()
		}
		blockers = append(blockers, m)
	}
	return map[string]any{"rings": r.path.Rings, "doorbells": r.path.Doorbells, "payload": r.path.Payload, "blockers": blockers}
}

func (r *ioReport) jsonRow(x *ioRow) map[string]any {
	m := map[string]any{
		"initiator": x.initiator, "op": x.op, "pattern": x.pattern, "io_bytes": x.size, "drives": len(r.drives), "queues": x.queues,
		"queue_entries": r.f.depth, "runs": len(x.runs), "ios": x.ios, "verified_bytes": x.verified, "verified": x.allVerified(),
		"errors": map[string]uint64{},
	}
	if x.errors != nil {
		m["errors"] = x.errors
	}
	if x.op == opMixed {
		m["read_percent"] = r.f.reads
	}
	for _, u := range r.drives {
		if isSoft(u) {
			m["service_threads"] = x.service
		}
	}
	if x.initiator == byGPU {
		m["gpu_threads"], m["warps"], m["lanes"], m["warps_per_block"], m["sms"] = x.threads(), x.warps, x.lanes, r.f.block, x.sms
	}
	if x.mismatch != "" {
		m["wrong_pieces"], m["first_mismatch"] = x.wrong, x.mismatch
	}
	if len(x.runs) == 0 {
		return m
	}
	prefix := r.label()
	if prefix != "" {
		prefix += "_"
	}
	for _, c := range ioColumns {
		if c.name != serviceColumn || x.serviceKnown() {
			m[prefix+c.name] = x.median(c.pick)
		}
	}
	var each, long []float64
	for _, f := range x.runs {
		each, long = append(each, f.iops), append(long, f.seconds)
	}
	m[prefix+"iops_of_runs"], m[prefix+"seconds_of_runs"] = each, long
	return m
}
