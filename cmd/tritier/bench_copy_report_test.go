package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
)

// modelReport is a report whose times come from simple laws in the order of an
// H200's: a constant, a cost a page, and a rate.
func modelReport(t *testing.T) *copyReport {
	t.Helper()
	withFakeGPU(t, cudafake.WithDevice(cudafake.DeviceSpec{Name: "NVIDIA H200", PCI: "0000:06:00.0"}))
	d, err := openCUDA()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	f := &benchCopyFlags{bytes: 1 << 30, runs: 9, seed: 1, gpu: "0", directions: copyDirectionNames,
		pages: []string{"4KiB", "16KiB", "64KiB", "256KiB"}, counts: []string{"1..1024"}, paths: []string{"chooser", "all"}}
	s, err := f.settings(func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	s.have = batchPaths
	r := newCopyReport(s, dev)
	r.date, r.took = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), 12*time.Second
	r.source = "calibrated 2026-11-30 with CUDA 13.0"
	r.pcie = pcieState{Now: &gpuinfo.Link{Generation: 5, Width: 16}, Best: &gpuinfo.Link{Generation: 5, Width: 16}}
	r.link = copyeng.Link{ToDevice: 55.4, ToHost: 55.3, BothWays: 100.7}
	for _, x := range s.cells() {
		r.rows = append(r.rows, modelRow(s, x))
	}
	for _, page := range []int{4096, 65536} {
		r.small = append(r.small, modelSmall(page, 1, 9.4, 8.6), modelSmall(page, 8, 13.1, 27.7, 24.8))
	}
	return r
}

// law is microseconds: start + perPage * pages + bytes/rate.
type law struct {
	start, perPage, rate float64 // us, us, GB/s
}

var modelLaws = map[copyeng.Path]law{
	copyeng.PathMemcpy: {6, 2.6, 33}, copyeng.PathBatch: {7, 1.4, 50}, copyeng.PathBatch2: {10, 0.9, 51}, copyeng.PathBatch4: {14, 0.8, 52},
	copyeng.PathZeroCopy: {11.5, 0.02, 51.5}, copyeng.PathHybrid25: {22, 0.3, 53.5}, copyeng.PathHybrid50: {22, 0.5, 53.9},
	copyeng.PathSequential: {16, 0.1, 52}, copyeng.PathExchange: {20, 0.05, 88},
	copyeng.PathTwoBatches: {24, 0.5, 86},
}

func modelRow(s *copySettings, x copyCell) copyRow {
	row := copyRow{copyCell: x}
	for _, p := range s.pathsFor(x.direction) {
		l, bytes := modelLaws[p], float64(x.page*x.pages)
		if x.direction == copyBoth {
			bytes *= 2
		}
		us := l.start + l.perPage*float64(x.pages) + bytes/l.rate/1e3
		row.paths = append(row.paths, copyTiming{p, usec(us), usec(0.97 * us), usec(1.08 * us)})
	}
	chosen := *row.best()
	chosen.median = chosen.median * 102 / 100
	row.chooser = &chosen
	return row
}

func usec(us float64) time.Duration { return time.Duration(us * 1e3) }

func modelSmall(page, pages int, chooser float64, raw ...float64) copyeng.Small {
	s := copyeng.Small{Page: page, Pages: pages, Queue: copyeng.Sample{Path: copyeng.PathMemcpy, Chosen: true, Runs: []time.Duration{usec(chooser)}}}
	for i, us := range raw {
		s.Raw = append(s.Raw, copyeng.Sample{Path: batchPaths[i], Runs: []time.Duration{usec(us)}})
	}
	return s
}

// The figures of a row are those of its times.
func TestCopyRowFigures(t *testing.T) {
	row := copyRow{copyCell: copyCell{copyToHost, 65536, 100},
		paths:   []copyTiming{{path: "batch", median: usec(200)}, {path: "zero-copy", median: usec(131.072)}},
		chooser: &copyTiming{path: "batch", median: usec(196.608)}}
	if got := row.gbps(&row.paths[1]); math.Abs(got-50) > 1e-9 {
		t.Errorf("6,553,600 bytes in 131.072 us are %g GB/s, want 50", got)
	}
	if best := row.best(); best.path != "zero-copy" {
		t.Errorf("best %s", best.path)
	}
	if v, ok := row.ratio(); !ok || math.Abs(v-1.5) > 1e-9 {
		t.Errorf("ratio %g", v)
	}
	row.direction = copyBoth
	if got := row.gbps(&row.paths[1]); math.Abs(got-100) > 1e-9 {
		t.Errorf("as much each way is %g GB/s, want 100", got)
	}
	r := copyReport{link: copyeng.Link{ToDevice: 50, ToHost: 40, BothWays: 80}}
	if got := r.share(&row); math.Abs(got-66.6667/80) > 1e-3 {
		t.Errorf("share %g of the two-way rate", got)
	}
	row.direction = copyToHost
	if got := r.share(&row); math.Abs(got-33.3333/40) > 1e-3 {
		t.Errorf("share %g of the rate to the host", got)
	}
	row.paths = nil
	if _, ok := row.ratio(); ok || row.best() != nil {
		t.Error("a best path of none")
	}
}

func TestCopyReportText(t *testing.T) {
	r := modelReport(t)
	var b bytes.Buffer
	if err := r.text(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	wantLines(t, text,
		"GPU 0 (NVIDIA H200), GPU-", ", 0000:06:00.0, CUDA 13.0, PCIe Gen5 x16\n",
		"chooser: calibrated 2026-11-30 with CUDA 13.0\n",
		"link, large pinned copies in this run: 55.4 GB/s to the device, 55.3 GB/s to the host, 100.7 GB/s both ways at once\n",
		"2026-11-30 12:00 UTC, 9 alternating runs over 1GiB, seed 1, 12s; every path of every row was compared with what was sent\n",
		"\nto the device: ", "\nto the host: ", "\nboth ways at once: ",
		"above the best", "+0.8", "-11.7",
		"64KiB x 1,024 to the device                   0.890 of the link  49.3 GB/s by zero-copy\n",
	)
	for _, line := range []string{
		// 64 KiB x 1,024 by zero-copy: 11.5 + 0.02*1024 + 67108864/51.5e3 = 1335.1 us, which are 50.3 GB/s
		`64KiB  1,024   4702.0  14\.3 .* 1335\.1  50\.3\* .*zero-copy  1361\.8  1295\.0-1441\.9  1\.020   49\.3     0\.89`,
		`256KiB      1     26\.2  20\.0     26\.0  20\.2\* .*exchange    26\.5 .*  1\.020   19\.8     0\.20`,
	} {
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if strings.Contains(text, "MISSED") || strings.Contains(text, "at least") {
		t.Error("bars without --check")
	}
	r.f.check, r.interrupted = true, true
	r.rows = r.rows[:7]
	b.Reset()
	if err := r.text(&b); err != nil {
		t.Fatal(err)
	}
	wantLines(t, b.String(), "at most 1.10   met ", "not measured\n", "ended early: 7 of 132 rows are known\n")
}

// Each bar is taken from the right rows, and is missed just beyond its limit.
func TestCopyBars(t *testing.T) {
	r := modelReport(t)
	// set makes the chooser's rate a share of the link in one row.
	set := func(d copyDirection, pages int, share float64) {
		for i := range r.rows {
			if x := &r.rows[i]; x.direction == d && x.page == barPage && x.pages == pages {
				bytes := float64(x.page * x.pages)
				if d == copyBoth {
					bytes *= 2
				}
				x.chooser.median = time.Duration(bytes / share / r.linkRate(d))
				for k := range x.paths { // the ratio stays as it was
					x.paths[k].median = x.chooser.median
				}
			}
		}
	}
	for d, shares := range [][]float64{{0.881, 0.9, 0.921}, {0.881, 0.9, 0.921}, {0.851, 0.86, 0.87}} {
		for i, n := range []int{256, 512, 1024} {
			set(copyDirection(d), n, shares[i])
		}
	}
	if err := verdictOf(r.bars()); err != nil {
		t.Fatalf("all bars are met: %v", err)
	}
	missed := func(what, want string) {
		t.Helper()
		err := verdictOf(r.bars())
		if err == nil || !strings.Contains(err.Error(), "1 of 13 bars missed: "+want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	set(copyToDevice, 256, 0.879)
	missed("256 pages below 0.88", "64KiB x 256 to the device: 0.879 of the link, at least 0.88")
	set(copyToDevice, 256, 0.881)
	set(copyToHost, 1024, 0.919)
	missed("1,024 pages below 0.92", "64KiB x 1,024 to the host: 0.919 of the link, at least 0.92")
	set(copyToHost, 1024, 0.93)
	set(copyBoth, 512, 0.849)
	missed("both ways below 0.85", "64KiB x 512 both ways at once: 0.849 of the link, at least 0.85")
	set(copyBoth, 512, 0.86)

	x := &r.rows[5] // 4KiB x 32 to the device
	good := x.chooser.median
	x.chooser.median = x.best().median * 111 / 100
	missed("a ratio of 1.11", "chooser over the best path, one way, worst: 1.11")
	if b := r.bars()[0]; !strings.HasPrefix(b.Where, "to-device 4KiB x 32: ") {
		t.Errorf("the worst row is %q", b.Where)
	}
	x.chooser.median = good
	last := &r.rows[len(r.rows)-1] // both ways: said, and held to nothing
	last.chooser.median = last.best().median * 12 / 10
	if err := verdictOf(r.bars()); err != nil {
		t.Errorf("a ratio of 1.2 both ways: %v", err)
	}
	last.chooser.median = last.best().median

	r.small[0].Queue.Runs[0] = usec(10.7)
	missed("one page 2.1 us late", "one page above the driver's call, worst: 2.1 us")
	r.small[0].Queue.Runs[0] = usec(10.5)
	r.small[3].Queue.Runs[0] = usec(26.9)
	missed("8 pages 2.1 us later than the faster raw way", "2 to 8 pages above the driver's calls, worst: 2.1 us")

	r.rows, r.small = nil, nil
	if err := verdictOf(r.bars()); err == nil || !strings.Contains(err.Error(), "no bar is about what was measured") {
		t.Errorf("a check of nothing: %v", err)
	}
}

func TestCopyReportJSON(t *testing.T) {
	r := modelReport(t)
	r.f.check = true
	var b bytes.Buffer
	if err := r.json(&b); err != nil {
		t.Fatal(err)
	}
	doc := decodeCopy(t, b.String())
	if len(doc.Rows) != 132 || len(doc.Small) != 4 || len(doc.Summary) != 13 || doc.PCIe.Now.Generation != 5 {
		t.Fatalf("%d rows, %d small, %d in the summary", len(doc.Rows), len(doc.Small), len(doc.Summary))
	}
	for i, x := range doc.Rows {
		want := &r.rows[i]
		best := want.best()
		got := x.Paths[best.path]
		if x.BestPath != best.path || got.Median != microseconds(best.median) || got.Low != microseconds(best.low) || got.High != microseconds(best.high) ||
			x.Chooser.Path != want.chooser.path || math.Abs(x.Chooser.OverBest-1.02) > 0.01 || x.Chooser.LinkShare != r.share(want) {
			t.Errorf("row %d: %+v", i, x)
		}
	}
	for i, s := range doc.Summary {
		if b := r.bars()[i]; s.Name != b.Name || s.Met != b.met() || s.Limit != b.Limit {
			t.Errorf("%+v, want %+v", s, b)
		}
	}
	if s := doc.Small[1]; s.Chooser.Median != 13.1 || s.Driver["batch"].Median != 24.8 || math.Abs(s.Above+11.7) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// copyDoc is what a program reads of tritier bench copy --json.
type copyDoc struct {
	GPU                   gpuIdentity
	Driver, Calibration   string
	PCIe                  pcieState
	Seed, Bytes           uint64
	Runs                  int
	Verified, Interrupted bool
	Link                  struct {
		ToDevice float64 `json:"to_device_gbps"`
		ToHost   float64 `json:"to_host_gbps"`
		BothWays float64 `json:"both_ways_gbps"`
	}
	Rows []struct {
		Direction string
		PageBytes int `json:"page_bytes"`
		Pages     int
		Paths     map[copyeng.Path]copyDocTiming
		BestPath  copyeng.Path `json:"best_path"`
		Chooser   *struct {
			copyDocTiming
			Path      copyeng.Path
			OverBest  float64 `json:"over_best"`
			LinkShare float64 `json:"link_share"`
		}
	}
	Small []struct {
		Direction string
		Pages     int
		Runs      int
		Chooser   copyDocTiming
		Driver    map[copyeng.Path]copyDocTiming
		Above     float64 `json:"above_best_us"`
	}
	Summary []struct {
		Name     string
		Measured bool
		Value    float64
		Limit    float64
		Met      bool
	}
}

type copyDocTiming struct {
	Median float64 `json:"median_us"`
	Low    float64 `json:"p10_us"`
	High   float64 `json:"p90_us"`
	GBps   float64 `json:"gbps"`
}

func decodeCopy(t *testing.T, text string) (doc copyDoc) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return doc
}

// Pictures are whole documents with every path's colour in them, also of a
// single row.
func TestCopyPlot(t *testing.T) {
	r := modelReport(t)
	var svg bytes.Buffer
	if err := r.draw(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(svg.Bytes(), new(struct{})); err != nil {
		t.Errorf("no XML: %v", err)
	}
	for _, p := range slices.Concat(batchPaths, bothPaths) {
		c := pathColors[p]
		if hex := fmt.Sprintf("stroke:#%02X%02X%02X", c.R, c.G, c.B); !strings.Contains(svg.String(), hex) {
			t.Errorf("no line of %s (%s)", p, hex)
		}
	}
	wantLines(t, svg.String(), "NVIDIA H200, CUDA 13.0, PCIe Gen5 x16; medians of 9 runs, 2026-11-30", "256KiB pages, both ways at once", "stroke-dasharray", ">1,024<")
	var raster bytes.Buffer
	if err := r.draw(&raster, "png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&raster)
	if err != nil || img.Bounds().Dx() < 2000 {
		t.Errorf("no picture: %v", err)
	}
	r.directions, r.pages, r.counts, r.rows = []copyDirection{copyToHost}, []int{4096}, []int{64}, []copyRow{r.rows[50]}
	svg.Reset()
	if err := r.draw(&svg, "svg"); err != nil || strings.Contains(svg.String(), "NaN") {
		t.Errorf("one row: %v", err)
	}
	if r.rows = nil; r.draw(&svg, "svg") == nil {
		t.Error("a picture of nothing")
	}
}
