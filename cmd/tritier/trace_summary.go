package main

import (
	"io"
	"math"
	"slices"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/trace"
	"github.com/tritier/tritier/tier"
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

// observer notes what the records of a trace say beyond their pages.
type observer struct {
	trace.Reader
	arrays      map[uint32]struct{}
	last        uint32 // array of the record before, if any
	first, upto uint64 // time
}

// Info passes the description on.
func (o *observer) Info() trace.Info { return infoOf(o.Reader) }

// Next implements trace.Reader.
func (o *observer) Next(recs []trace.Record) (int, error) {
	n, err := o.Reader.Next(recs)
	for i := range recs[:n] {
		r := &recs[i]
		if r.Array != o.last || len(o.arrays) == 0 {
			o.last = r.Array
			o.arrays[r.Array] = struct{}{}
		}
		o.first, o.upto = min(o.first, r.Time), max(o.upto, r.Time)
	}
	return n, err
}

// summarise reads r to its end.
func summarise(r trace.Reader, path string, pageSize uint64) (*summary, error) {
	o := &observer{Reader: r, arrays: map[uint32]struct{}{}, first: math.MaxUint64}
	// A stream numbers pages densely: counting them needs no map of its own.
	pages := sim.NewStream(o, path, pageSize)
	counts, whole, err := countPages(pages)
	if err != nil {
		return nil, err
	}
	info, got := infoOf(r), pages.Info()
	s := &summary{Trace: path, Format: info.Format, Compression: info.Compression, Source: info.Source, Order: info.Order,
		PageSize: pageSize, Accesses: got.Accesses, Reads: got.Accesses - got.Writes, Writes: got.Writes, WholeWrites: whole,
		Prefetches: got.Prefetches, DistinctPages: uint64(got.Pages), Footprint: uint64(got.Pages) * pageSize,
		Arrays: uint64(len(o.arrays)), Requests: got.Requests, TimeSpan: o.upto - min(o.first, o.upto)}
	s.Top = hottest(counts, s.Accesses)
	return s, nil
}

// countPages counts the accesses of each page, prefetched ones counting 0, and
// the writes of whole pages.
func countPages(pages *sim.Stream) (counts []uint64, whole uint64, err error) {
	var b sim.Block
	for {
		if err := pages.Next(&b, copyBatch); err == io.EOF {
			return counts, whole, nil
		} else if err != nil {
			return nil, 0, err
		}
		if more := b.Pages - len(counts); more > 0 {
			counts = append(counts, make([]uint64, more)...)
		}
		for _, a := range b.Accesses {
			switch a.Op() {
			case tier.Prefetch:
			case tier.Overwrite:
				whole++
				fallthrough
			default:
				counts[a.Page()]++
			}
		}
	}
}

// hottest finds the shares of the most accessed pages; it sorts counts.
func hottest(counts []uint64, accesses uint64) (tops []top) {
	if accesses == 0 {
		return nil
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	for _, percent := range topPercents {
		n := max(1, int(math.Ceil(float64(len(counts))*percent/100)))
		sum := uint64(0)
		for _, c := range counts[:n] {
			sum += c
		}
		tops = append(tops, top{percent, uint64(n), 100 * float64(sum) / float64(accesses)})
	}
	return tops
}
