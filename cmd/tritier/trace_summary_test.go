package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

// TestSummariseArrays compares with maps by page, over many arrays that use the
// same page numbers.
func TestSummariseArrays(t *testing.T) {
	type key struct{ array, page int }
	rng := rand.New(rand.NewPCG(7, 8))
	counts, arrays := map[key]uint64{}, map[int]bool{}
	ops := map[string]uint64{}
	var text bytes.Buffer
	fmt.Fprintln(&text, "time_ns,array,page,op,request")
	for i := range 50_000 {
		k := key{rng.IntN(700), rng.IntN(40)}
		op := []string{"R", "R", "R", "W", "P"}[rng.IntN(5)]
		fmt.Fprintf(&text, "%d,%d,%d,%s,%d\n", 1000+i, k.array, k.page, op, i/10)
		ops[op]++
		arrays[k.array] = true
		if op != "P" {
			counts[k]++
		} else {
			counts[k] += 0
		}
	}
	r, err := trace.New(strings.NewReader(text.String()), "mem", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := summarise(r, "mem", 4096)
	if err != nil {
		t.Fatal(err)
	}
	if s.Reads != ops["R"] || s.Writes != ops["W"] || s.Prefetches != ops["P"] || s.Accesses != ops["R"]+ops["W"] ||
		s.DistinctPages != uint64(len(counts)) || s.Footprint != 4096*s.DistinctPages || s.Arrays != uint64(len(arrays)) ||
		s.Requests != 5000 || s.TimeSpan != 49_999 || s.Format != "csv" || s.Trace != "mem" {
		t.Errorf("%+v\nwant %v, %d pages, %d arrays", s, ops, len(counts), len(arrays))
	}
	var sorted []uint64
	for _, n := range counts {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	slices.Reverse(sorted)
	for i, percent := range []int{1, 10, 100} { // tenths
		n := max(1, (len(sorted)*percent+999)/1000)
		sum := uint64(0)
		for _, c := range sorted[:n] {
			sum += c
		}
		if got := s.Top[i]; got.Pages != uint64(n) || got.AccessPercent != 100*float64(sum)/float64(s.Accesses) {
			t.Errorf("%+v, want %d pages with %d accesses", got, n, sum)
		}
	}
}
