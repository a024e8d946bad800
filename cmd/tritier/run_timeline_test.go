package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// drawn is a timeline as a file has it.
type drawn struct {
	Events []struct {
		Ph, Name string
		Tid      int
		Ts, Dur  float64
		Args     struct {
			Array, Op string
			Page      uint64
			Failed    bool
		}
	} `json:"traceEvents"`
	About map[string]uint64 `json:"otherData"`
}

// drawTimeline has a timeline told of so many misses of two multiprocessors, at most overlap at a
// time on each, in the order of their ends, each with a read in it.
func drawTimeline(t *testing.T, misses, overlap int) (*timeline, drawn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.json")
	file, err := createOutput(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	line := newTimeline(file, "a test")
	var c lib.Config
	line.observe(&c)
	rng := rand.New(rand.NewPCG(1, 2))
	var list []lib.Event
	free := make([]time.Duration, 2*overlap)
	for i := range misses {
		lane := rng.IntN(len(free))
		start, took := free[lane]+time.Duration(rng.IntN(100)), time.Duration(rng.IntN(100000))
		free[lane] = start + took
		list = append(list, lib.Event{Kind: host.EventMiss, Start: line.begun.Add(start), Took: took, Array: `a"b`, Page: uint64(i), Op: tier.Write, SM: lane % 2, Failed: i%9 == 0})
	}
	slices.SortFunc(list, func(a, b lib.Event) int { return a.Start.Add(a.Took).Compare(b.Start.Add(b.Took)) })
	for _, e := range list {
		c.Events(e)
		e.Kind, e.Start, e.Took = host.EventRead, e.Start.Add(e.Took/4), e.Took/2
		c.Events(e)
	}
	line.told = lib.Traced{Begun: uint64(misses), Sampled: uint64(misses)}
	_, lacks, err := line.end()
	if err != nil {
		t.Fatal(err)
	}
	c.Events(list[0]) // what comes later is not in it
	if err := file.commit(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d drawn
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return line, d, lacks
}

// TestTimelineRows: misses that overlap are in rows of their own, as few as can be, with
// their reads in them.
func TestTimelineRows(t *testing.T) {
	const misses, overlap = 3000, 6
	_, d, lacks := drawTimeline(t, misses, overlap)
	ends, miss := map[int]float64{}, map[int]int{}
	n := 0
	for i, e := range d.Events {
		if e.Ph != "X" {
			continue
		}
		n++
		if e.Args.Array != `a"b` || e.Args.Failed != (e.Args.Page%9 == 0) || (e.Args.Op == "write") != (e.Name == "miss") {
			t.Errorf("%+v", e)
		}
		if e.Name == "miss" {
			if e.Ts < ends[e.Tid]-0.002 {
				t.Errorf("%+v begins before %f", e, ends[e.Tid])
			}
			ends[e.Tid], miss[e.Tid] = e.Ts+e.Dur, i
			continue
		}
		if m := d.Events[miss[e.Tid]]; e.Name != "read" || m.Args.Page != e.Args.Page || e.Ts < m.Ts-0.002 || e.Ts+e.Dur > m.Ts+m.Dur+0.002 {
			t.Errorf("%+v is not in %+v", e, m)
		}
	}
	if n != 2*misses || len(ends) != 2*overlap || lacks != "" || d.About["events"] != 2*misses || d.About["misses"] != misses {
		t.Errorf("%d spans in %d rows, lacks %q, about %v", n, len(ends), lacks, d.About)
	}
}

// TestTimelineBound: what is too much for the file is left out whole, and counted.
func TestTimelineBound(t *testing.T) {
	defer func(n uint64) { mostMoves = n }(mostMoves)
	mostMoves = 100
	line, d, lacks := drawTimeline(t, 80, 2)
	n := 0
	for _, e := range d.Events {
		if e.Ph == "X" {
			n++
		}
	}
	if n != 100 || line.over != 30 || lacks != "30 misses left out for the size of the file" || d.About["left_out_for_size"] != 30 {
		t.Errorf("%d spans, %d left out, %q, %v", n, line.over, lacks, d.About)
	}
}
