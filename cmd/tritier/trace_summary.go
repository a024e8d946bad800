package main

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/tritier/tritier/sim/trace"
)

// summary is what trace info finds out; the JSON names are an interface.
type summary struct {
	Trace         string `json:"trace"`
	Format        string `json:"format"`
	Compression   string `json:"compression,omitempty"`
	Source        string `json:"source,omitempty"`
	Order         string `json:"order,omitempty"`
	PageSize      uint64 `json:"page_size"`
	Accesses      uint64 `json:"accesses"`
	Reads         uint64 `json:"reads"`
	Writes        uint64 `json:"writes"`
	WholeWrites   uint64 `json:"whole_page_writes"`
	Prefetches    uint64 `json:"prefetches"`
	DistinctPages uint64 `json:"distinct_pages"`
	Footprint     uint64 `json:"footprint_bytes"`
	Arrays        uint64 `json:"arrays"`
	Requests      uint64 `json:"requests"`
	TimeSpan      uint64 `json:"time_span_ns"`
	Top           []top  `json:"top"`
}

// top is the share of the accesses that the most accessed pages take.
type top struct {
	PagesPercent  float64 `json:"pages_percent"`
	Pages         uint64  `json:"pages"`
	AccessPercent float64 `json:"accesses_percent"`
}

// topPercents are the shares of the pages that a summary looks at.
var topPercents = []float64{0.1, 1, 10}

// tally counts a trace.
type tally struct {
	summary
	counts      map[pageKey]uint64 // accesses by page; prefetched pages count 0
	arrays      map[uint32]bool
	first, last uint64 // time
}

// summarise reads r to its end.
func summarise(r trace.Reader, path string, pageSize uint64) (*summary, error) {
	info := infoOf(r)
	t := tally{counts: map[pageKey]uint64{}, arrays: map[uint32]bool{}, first: math.MaxUint64}
	t.summary = summary{Trace: path, Format: info.Format, Compression: info.Compression, Source: info.Source,
		Order: info.Order, PageSize: pageSize}
	pages := trace.NewSplitter(r, pageSize)
	batch := make([]trace.Access, copyBatch)
	for {
		n, err := pages.Next(batch)
		if errors.Is(err, io.EOF) && n == 0 {
			return t.finish(), nil
		}
		if err != nil {
			return nil, err
		}
		for i := range batch[:n] {
			t.add(&batch[i])
		}
	}
}

// add counts one access.
func (t *tally) add(a *trace.Access) {
	key := pageKey{a.Page, a.Array}
	switch a.Op {
	case trace.Prefetch:
		t.Prefetches++
		t.counts[key] += 0 // it is part of the footprint
	case trace.Write:
		t.Writes++
		if a.Whole {
			t.WholeWrites++
		}
		t.counts[key]++
	default:
		t.Reads++
		t.counts[key]++
	}
	if a.RequestStart {
		t.Requests++
	}
	t.arrays[a.Array] = true
	t.first, t.last = min(t.first, a.Time), max(t.last, a.Time)
}

// finish derives the rest.
func (t *tally) finish() *summary {
	t.Accesses = t.Reads + t.Writes
	t.DistinctPages = uint64(len(t.counts))
	t.Footprint = t.DistinctPages * t.PageSize
	t.Arrays = uint64(len(t.arrays))
	t.TimeSpan = t.last - min(t.first, t.last)
	if t.Accesses == 0 {
		return &t.summary
	}
	counts := make([]uint64, 0, len(t.counts))
	for _, n := range t.counts {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, percent := range topPercents {
		n := max(1, int(math.Ceil(float64(len(counts))*percent/100)))
		sum := uint64(0)
		for _, c := range counts[:n] {
			sum += c
		}
		t.Top = append(t.Top, top{percent, uint64(n), 100 * float64(sum) / float64(t.Accesses)})
	}
	return &t.summary
}
