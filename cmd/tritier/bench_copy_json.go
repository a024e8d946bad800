package main

import (
	"io"
	"time"

	"github.com/tritier/tritier/copyeng"
)

// json writes the report for programs.
func (r *copyReport) json(w io.Writer) error {
	doc := map[string]any{
		"gpu": gpuIdentityOf(r.dev), "driver": r.dev.Driver().Version().String(), "pcie": r.pcie,
		"calibration": r.source, "date": r.date.Format(time.RFC3339), "seconds": r.took.Seconds(),
		"runs": r.f.runs, "bytes": uint64(r.f.bytes), "seed": r.f.seed,
		"verified": r.interrupted || !r.failed, "interrupted": r.interrupted,
		"link": map[string]any{
			"to_device_gbps": r.link.ToDevice, "to_host_gbps": r.link.ToHost, "both_ways_gbps": r.link.BothWays,
		},
	}
	rows := []map[string]any{}
	for i := range r.rows {
		rows = append(rows, r.jsonRow(&r.rows[i]))
	}
	doc["rows"] = rows
	small := []map[string]any{}
	for i := range r.small {
		small = append(small, jsonSmall(&r.small[i]))
	}
	doc["small"] = small
	summary := []map[string]any{}
	for _, b := range r.bars() {
		m := map[string]any{"name": b.Name, "measured": b.Measured, "unit": b.Unit}
		if b.Measured {
			m["value"], m["where"] = b.Value, b.Where
		}
		if r.f.check {
			m["limit"], m["at_least"], m["met"] = b.Limit, b.AtLeast, b.met()
		}
		summary = append(summary, m)
	}
	doc["summary"] = summary
	return writeJSON(w, doc)
}

func (r *copyReport) jsonRow(x *copyRow) map[string]any {
	m := map[string]any{"direction": x.direction.String(), "page_bytes": x.page, "pages": x.pages}
	paths := map[string]any{}
	for i := range x.paths {
		paths[string(x.paths[i].path)] = x.jsonTiming(&x.paths[i])
	}
	m["paths"] = paths
	if best := x.best(); best != nil {
		m["best_path"] = best.path
	}
	if x.chooser != nil {
		c := x.jsonTiming(x.chooser)
		c["path"], c["link_share"] = x.chooser.path, r.share(x)
		if v, ok := x.ratio(); ok {
			c["over_best"] = v
		}
		m["chooser"] = c
	}
	return m
}

func (r *copyRow) jsonTiming(t *copyTiming) map[string]any {
	return map[string]any{
		"median_us": microseconds(t.median), "p10_us": microseconds(t.low), "p90_us": microseconds(t.high), "gbps": r.gbps(t),
	}
}

func jsonSmall(s *copyeng.Small) map[string]any {
	m := map[string]any{
		"direction": s.Dir.String(), "page_bytes": s.Page, "pages": s.Pages, "runs": len(s.Queue.Runs),
		"chooser": jsonSample(&s.Queue), "above_best_us": microseconds(s.Excess()),
	}
	raw := map[string]any{}
	for i := range s.Raw {
		raw[string(s.Raw[i].Path)] = jsonSample(&s.Raw[i])
	}
	m["driver"] = raw
	return m
}

func jsonSample(s *copyeng.Sample) map[string]any {
	low, high := s.Spread()
	return map[string]any{"path": s.Path, "median_us": microseconds(s.Median()), "p10_us": microseconds(low), "p90_us": microseconds(high)}
}
