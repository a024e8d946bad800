package workload

import (
	"context"

	"github.com/tritier/tritier/sim/trace"
)

// The shapes that put two others together.
var (
	mixShape = &shape{
		name: "mix",
		doc:  "A Zipf working set (array 0) with a scan (array 1) running through it: a policy should keep the one and let the other pass.",
		params: []Param{pagesParam, bytesParam("pages", "total size of the working set"), pageSizeParam, accessesParam, thetaParam, scrambleParam,
			count("scan-pages", "", "pages of the scanned array; pages when not given", 1, 1<<40),
			ratio("scan", "0.5", "share of the accesses that belong to the scan", 0, 1), writesParam, seedParam},
		derive: func(v values) error {
			if err := pagesFromBytes(v); err != nil {
				return err
			}
			if !v.has("scan-pages") {
				v.set("scan-pages", v.uint("pages"))
			}
			return nil
		},
		accesses: accessCount,
		open:     func(_ context.Context, v values) (func(*stream), error) { return func(s *stream) { runMix(s, v) }, nil },
	}
	shiftShape = &shape{
		name: "shift",
		doc:  "One shape, then another over the same pages; from zipf to zipf, the hot set moves.",
		params: []Param{pagesParam, bytesParam("pages", "total size of the pages"), pageSizeParam, accessesParam,
			choice("from", "zipf", "shape before the change", parts...), choice("to", "zipf", "shape after the change", parts...),
			ratio("at", "0.5", "share of the accesses before the change", 0, 1), thetaParam, writesParam, seedParam},
		derive:   pagesFromBytes,
		accesses: accessCount,
		open: func(_ context.Context, v values) (func(*stream), error) {
			return func(s *stream) { runShift(s, v) }, nil
		},
	}
)

// parts are the sequences that shift can be made of.
var parts = []string{"zipf", "uniform", "loop"}

// runMix draws for every access whether the scan or the working set is next.
func runMix(s *stream, v values) {
	seed := v.uint("seed")
	hot, scan := zipfSequence(v), &cycle{pages: v.uint("scan-pages")}
	writes := newChance(seed, writeStream, v.ratio("writes"))
	choose := newChance(seed, choiceStream, v.ratio("scan"))
	for range v.uint("accesses") {
		if s.closed {
			return
		}
		array, from := uint32(0), hot
		if choose.happens() {
			array, from = 1, scan
		}
		page, first := from.next()
		if first {
			s.request()
		}
		op := trace.Read
		if writes.happens() {
			op = trace.Write
		}
		s.page(array, page, op)
	}
}

// runShift runs the two halves; the second begins a request.
func runShift(s *stream, v values) {
	writes := newChance(v.uint("seed"), writeStream, v.ratio("writes"))
	total := v.uint("accesses")
	before := min(uint64(float64(total)*v.ratio("at")), total)
	emit(s, 0, part(v, "from"), writes, before)
	s.request()
	emit(s, 0, part(v, "to"), writes, total-before)
}

// part is one half of a shift. Each half has its own random numbers and, under
// zipf, its own hot set.
func part(v values, key string) sequence {
	seed := v.uint("seed")
	if key == "to" {
		seed = hash(seed)
	}
	switch v.word(key) {
	case "zipf":
		return newPopularity(v, true, seed)
	case "uniform":
		return uniform{newSource(seed, pageStream), v.uint("pages")}
	}
	return &cycle{pages: v.uint("pages")}
}
