package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/tune"
)

// tunePolicies are canonical forms of different lengths.
var tunePolicies = []string{
	"gmt-reuse{t1=s3-fifo(cap=3,ghost=4,promote=1,small=0.1),t2=fifo,first=0.5,fit-every=8192,k=16,r2=0.75,starve=0.8,t2copy=drop,vtd-direct=10240,window=1024}",
	"tier-order{t1=lru,t2=lru,t2copy=drop}",
	"bypass{t1=clock,t2=fifo,t2copy=drop}",
}

// sampleTune is a report made up for one or several traces and sizes.
func sampleTune(traces, sizes int) *Tune {
	r := &tune.Report{Version: 1, Seed: 7, Seeds: 5, Objective: tune.Objective{Time: 1}, Model: "h200-4xgen5", Candidates: 321, Evaluations: 700}
	for i := range traces {
		r.Traces = append(r.Traces, tune.TraceReport{TraceInfo: sim.TraceInfo{Name: fmt.Sprintf("trace-%d.ids", i), Format: "ids", PageSize: 65536, Accesses: 100_000,
			Pages: 20_000}, Hash: "00", Train: 50_000, HeldOut: 50_000})
	}
	frames := func(gpu, host int) (out [][2]int) {
		for range traces {
			out = append(out, [2]int{gpu, host})
		}
		return out
	}
	for i := range sizes {
		r.Sizes = append(r.Sizes, tune.SizeReport{Name: fmt.Sprintf("%dGiB + 4GiB", i+1), Frames: frames(1000*(i+1), 4000), Cost: 10 * float64(i+1)})
	}
	for _, rate := range []float64{1.0 / 16, 0.25, 1} {
		g := tune.Rung{Candidates: 100}
		for range traces {
			g.Rates = append(g.Rates, rate)
		}
		r.Rungs = append(r.Rungs, g)
	}
	part := func(score float64) tune.Part {
		p := tune.Part{Score: tune.Score{Mean: score, Worst: score + 0.05}, Spread: tune.Range{Min: score - 0.002, Max: score + 0.004}, Bound: 0.5}
		for range traces {
			p.Traces = append(p.Traces, tune.TracePart{Metrics: tune.Metrics{Accesses: 50_000, Seconds: 0.2, SSDReads: 12_000, SSDWrites: 10}, Score: score, BoundSSDReads: 9000})
		}
		return p
	}
	for i, policy := range tunePolicies {
		score := 0.8 + 0.1*float64(i)
		r.Ranking = append(r.Ranking, tune.Ranked{Policy: policy, Size: i % sizes, Default: i > 0, Rung: 2, Runs: 5 - 4*min(i, 1), Train: part(score), HeldOut: part(score + 0.03),
			Miniature: &tune.Range{Min: score - 0.01, Max: score + 0.01}})
	}
	regret, half, twice := 0.0125, 0.31, -0.12
	r.Regret = &regret
	r.Sensitivity = []tune.Sensitivity{
		{Key: "placer", Value: "gmt-reuse", Points: []tune.Point{{Value: "bypass", Change: 0.2}, {Value: "tier-order", Change: 0.01}}},
		{Key: "t2", Value: "fifo", Points: []tune.Point{{Value: "lru", Change: 0, Traffic: -0.03}, {Value: "clock", Change: -0.00001}}},
		{Key: "k", Value: "16", Points: []tune.Point{{Value: "4", Change: 0}, {Value: "64", Change: 0}}},
		{Key: "t1.small", Value: "0.1", Points: []tune.Point{{Value: "0.4", Change: 0.9}, {Value: "0.05", Change: 0.02}}},
	}
	r.WrongSizes = []tune.WrongSize{{What: "half of T1", Frames: frames(500, 4000), Change: &half}, {What: "twice T1", Frames: frames(2000, 4000), Change: &twice},
		{What: "no T2", Frames: frames(1000, 0), Refuse: "it cannot"}}
	r.SafeMinimum = &tune.SafeMinimum{BuildsT1: 2, BuildsT2: 1, Frames: frames(125, 500), Tolerance: 0.05, Fails: frames(62, 250)}
	return &Tune{Report: r, Command: "tritier tune", About: "About it."}
}

// cutShort is what an interrupted run knows.
func cutShort(t *Tune) *Tune {
	r := *t.Report
	r.Interrupted, r.Regret, r.Sensitivity, r.WrongSizes, r.SafeMinimum = true, nil, nil, nil, nil
	r.Ranking = nil
	for i := range t.Ranking {
		r.Ranking = append(r.Ranking, tune.Ranked{Policy: t.Ranking[i].Policy, Rung: i % 3, Runs: 1, Train: tune.Part{Score: t.Ranking[i].Train.Score}})
	}
	return &Tune{Report: &r}
}

func TestTuneGolden(t *testing.T) {
	one, many := sampleTune(1, 1), sampleTune(2, 3)
	one.Saved = "it's best.yaml"
	many.Objective = tune.Objective{Time: 1, SSDWrites: 0.5, Worst: true}
	many.MaxWriteBytesPerDay = 1 << 40
	many.Ranking[2].Train.Score.Excess = 0.2
	for file, write := range map[string]func(io.Writer) error{
		"tune_one.txt": one.Table, "tune_many.txt": many.Table, "tune_one.html": one.HTML, "tune_interrupted.txt": cutShort(many).Table,
		"tune_nothing.txt": (&Tune{Report: &tune.Report{Interrupted: true, Objective: tune.Objective{SSDReads: 1}}}).Table,
	} {
		t.Run(file, func(t *testing.T) { golden(t, file, write) })
	}
}

// The JSON form has everything: read back, it is the same report.
func TestTuneJSON(t *testing.T) {
	want := sampleTune(2, 2)
	var b bytes.Buffer
	if err := want.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got tune.Report
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := (&Tune{Report: &got}).JSON(&again); err != nil {
		t.Fatal(err)
	}
	var first bytes.Buffer
	_ = want.JSON(&first)
	if d := cmp.Diff(first.String(), again.String()); d != "" {
		t.Error(d)
	}
}

// Reports of odd values come out in every form, without numbers that are none,
// and nothing in them becomes markup.
func TestTuneOddReports(t *testing.T) {
	const evil = `</title><script>alert("1")</script>&'`
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		r := sampleTune(1+rng.IntN(3), 1+rng.IntN(20))
		if rng.IntN(4) == 0 {
			r = cutShort(r)
		}
		odd := func() float64 { return []float64{0, 1, 1e-9, 1e9, 0.5}[rng.IntN(5)] }
		for i := range r.Ranking {
			x := &r.Ranking[i]
			for _, p := range []*tune.Part{&x.Train, &x.HeldOut} {
				p.Score.Mean, p.Score.Worst, p.Bound = odd(), odd(), odd()
				p.Spread = tune.Range{Min: p.Score.Mean, Max: p.Score.Mean + odd()}
				for k := range p.Traces {
					p.Traces[k].BoundSSDReads, p.Traces[k].SSDReads = odd(), odd()
				}
			}
		}
		for i := range r.Sensitivity {
			for k := range r.Sensitivity[i].Points {
				r.Sensitivity[i].Points[k].Change = odd() - 1
			}
		}
		r.Traces[0].Name, r.Sizes[0].Name, r.Command, r.About = evil, evil, evil, evil
		var table, page, asJSON bytes.Buffer
		if err := errors.Join(r.Table(&table), r.HTML(&page), r.JSON(&asJSON)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(table.String(), bad) || strings.Contains(page.String(), bad) {
				t.Errorf("seed %d: %s in the report", seed, bad)
			}
		}
		if strings.Contains(page.String(), "<script") {
			t.Fatalf("seed %d: a name became markup", seed)
		}
		checkTags(t, page.String())
	}
}

// checkTags checks that the page's elements are closed in order.
func checkTags(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	depth := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	if depth != 0 {
		t.Errorf("%d elements are left open", depth)
	}
}

func TestBrief(t *testing.T) {
	for in, want := range map[string]string{
		tunePolicies[0]:    "gmt-reuse{t1=s3-fifo(ghost=4),t2=fifo,window=1024}",
		"lru":              "tier-order{t1=lru,t2=lru}",
		"@nowhere":         "@nowhere",
		"no \x1b[31m such": `"no \x1b[31m such"`,
	} {
		if got := Brief(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Texts of charts keep the widths that they were laid out with, in whatever font a
// viewer has.
func TestTextsHaveWidths(t *testing.T) {
	f, ok := scoreFigure(sampleTune(1, 1))
	if !ok {
		t.Fatal("no chart")
	}
	doc, err := f.svg()
	if err != nil {
		t.Fatal(err)
	}
	texts, fitted := strings.Count(doc, "<text "), strings.Count(doc, `<text textLength="`)
	if texts < 10 || fitted != texts {
		t.Errorf("%d of %d texts have a width", fitted, texts)
	}
}
