package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/sim"
)

// contract are the names that other programs rely on.
var contract = []string{"trace.name", "policy", "gpu_frames", "host_frames", "accesses", "t1_hits", "t2_hits", "t3_fetches", "overwrites", "errors",
	"demotions", "bypasses", "writebacks", "final_dirty", "modelled_seconds"}

// scalars lists the names and values of a JSON object that are no list, with a
// dot between levels.
func scalars(prefix string, v map[string]any, into map[string]string) {
	for k, x := range v {
		switch x := x.(type) {
		case map[string]any:
			scalars(prefix+k+".", x, into)
		case []any:
		default:
			into[prefix+k] = fmt.Sprint(x)
		}
	}
}

// TestCSVMatchesJSON compares the two forms name by name and value by value,
// so that a new field of a result cannot be forgotten in one of them.
func TestCSVMatchesJSON(t *testing.T) {
	r := sample(t, oneSize)
	for i := range r.Results {
		r.Results[i].Placer = nil // for people and JSON only
		r.Results[i].Trace.Prefetches = 5
	}
	var asJSON, asCSV bytes.Buffer
	if err := errors.Join(r.JSON(&asJSON), r.CSV(&asCSV)); err != nil {
		t.Fatal(err)
	}
	var doc map[string][]map[string]any
	d := json.NewDecoder(&asJSON)
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || len(doc) != 1 {
		t.Fatal(err, len(doc))
	}
	lines, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil || len(lines) != len(r.Results)+1 || len(doc["results"]) != len(r.Results) {
		t.Fatal(err, len(lines), len(doc["results"]))
	}
	for i, obj := range doc["results"] {
		want := map[string]string{}
		scalars("", obj, want)
		if len(want) != len(lines[0]) {
			t.Errorf("%d JSON scalars, %d CSV columns", len(want), len(lines[0]))
		}
		for k, name := range lines[0] {
			if got := lines[i+1][k]; got != want[name] {
				t.Errorf("result %d, %s: CSV %q, JSON %q", i, name, got, want[name])
			}
		}
	}
	for _, name := range contract {
		if !slices.Contains(lines[0], name) {
			t.Errorf("no column %s", name)
		}
	}
}

// wellFormed reads a document as XML to its end.
func wellFormed(doc string) error {
	d := xml.NewDecoder(strings.NewReader(doc))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestRandomReports writes reports of odd shapes in every form: none fails,
// and what comes out can be parsed.
func TestRandomReports(t *testing.T) {
	for seed := range uint64(100) {
		r := smallRandom(rand.New(rand.NewPCG(seed, 1)))
		var table, asJSON, asCSV, page bytes.Buffer
		if err := errors.Join(r.Table(&table), r.JSON(&asJSON), r.CSV(&asCSV), r.HTML(&page)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			for name, text := range map[string]string{"table": table.String(), "page": page.String(), "CSV": asCSV.String()} {
				if strings.Contains(text, bad) {
					t.Fatalf("seed %d: %s in the %s", seed, bad, name)
				}
			}
		}
		var back struct{ Results []sim.Result }
		if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || len(back.Results) != len(r.Results) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var svg bytes.Buffer
		err := r.Plot(&svg, "svg")
		if (err != nil) != (len(r.Results) == 0) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := wellFormed(svg.String()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
			t.Fatalf("seed %d: a picture without coordinates", seed)
		}
	}
}

// TestHostileNames checks that nothing of a trace's or a policy's name can
// become markup.
func TestHostileNames(t *testing.T) {
	const evil = `</title><script>alert("1")</script>&'`
	r := sample(t, manySizes)
	r.Command, r.About = evil, evil
	for i := range r.Results {
		r.Results[i].Trace.Name, r.Labels[i] = evil, "<b>&\"'"
	}
	var page, svg bytes.Buffer
	if err := errors.Join(r.HTML(&page), r.Plot(&svg, "svg")); err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{page.String(), svg.String()} {
		if strings.Contains(doc, "<script") || strings.Contains(doc, "<b>") {
			t.Error("a name became markup")
		}
	}
	if err := wellFormed(svg.String()); err != nil {
		t.Error(err)
	}
}

// TestPNG checks that a picture can be decoded, has its size, and is no blank
// sheet.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := sample(t, oneSize).Plot(&b, "png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size.X != int(figureWidth)*dpi/72 || size.Y < 600 {
		t.Errorf("%v pixels", size)
	}
	colours := map[[3]uint32]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
		}
	}
	for _, c := range []string{hex(colorT1), hex(colorT2), hex(colorSSD), hex(colorTime)} {
		var want [3]uint32
		if _, err := fmt.Sscanf(c, "#%02X%02X%02X", &want[0], &want[1], &want[2]); err != nil || !colours[want] {
			t.Errorf("no %s in the picture (%v)", c, err)
		}
	}
}

// failing fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteErrors checks that every writer hands on what its Writer says.
func TestWriteErrors(t *testing.T) {
	r := sample(t, oneSize)
	for name, write := range map[string]func(io.Writer) error{
		"table": r.Table, "JSON": r.JSON, "CSV": r.CSV, "HTML": r.HTML,
		"SVG": func(w io.Writer) error { return r.Plot(w, "svg") }, "PNG": func(w io.Writer) error { return r.Plot(w, "png") },
	} {
		for _, room := range []int{0, 200} {
			if err := write(&failing{left: room}); !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d bytes: %v", name, room, err)
			}
		}
	}
	if err := r.Plot(io.Discard, "pdf"); err == nil || !strings.Contains(err.Error(), "svg, png") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestLabels checks that long names are cut and different ones stay different.
func TestLabels(t *testing.T) {
	long := "tier-order{t1=s3-fifo(small=0.1)"
	r := &Report{Results: make([]sim.Result, 5), Labels: []string{long + "}", "lru", long + ",t2=lru}", long + "}", ""}}
	r.Results[4].Policy = "canonical"
	got := r.labels()
	want := []string{"tier-order{t1=s3-fifo(small…", "lru", "tier-order{t1=s3-fifo(sm… #2", "tier-order{t1=s3-fifo(small…", "canonical"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSeconds(t *testing.T) {
	for in, want := range map[float64]string{0: "0 s", -1: "0 s", 1e-13: "0 ns", 1e-12: "0.001 ns", 4.2e-9: "4.20 ns", 3.55e-6: "3.55 µs",
		0.0123456: "12.3 ms", 0.999: "999 ms", 0.9996: "1.00 s", 1.005: "1.00 s", 9.996: "10.0 s", 99.96: "100 s", 12.34: "12.3 s",
		123.4: "123 s", 1234.6: "1,235 s", 1e7: "10,000,000 s"} {
		if got := seconds(in); got != want {
			t.Errorf("%g: %s, want %s", in, got, want)
		}
	}
}

// TestPrefetchesAndBound checks that charts and table count the quantity that
// the bound bounds: a policy that prefetches must not seem to beat it.
func TestPrefetchesAndBound(t *testing.T) {
	r := sample(t, manySizes)
	for i := range r.Results {
		res := &r.Results[i]
		res.Prefetches, res.PrefetchReads = 400_000, 400_000
		res.SSDReads, res.BoundReads = res.T3Fetches+400_000, pointer(res.T3Fetches+300_000)
		res.Trace.Prefetches = 400_000
	}
	g := r.groups()[0]
	c := &curves{group: &g}
	c.sizes, c.axis = sizeAxis(&g)
	bound := c.bound()
	for _, l := range c.collect(readPercent) {
		for i, p := range l.points {
			if l.label == g.sizes[0].rows[0].label && p.Y <= bound.points[i].Y {
				t.Errorf("%s has %g %%, below the bound of %g %%", l.label, p.Y, bound.points[i].Y)
			}
		}
	}
	row := g.sizes[0].rows[0].Result
	b := barFigure(g.info, g.sizes[0])
	doc, err := b.svg()
	if err != nil || !strings.Contains(doc, "SSD reads by prefetches") {
		t.Error("no legend for prefetches", err)
	}
	read := uint64(0)
	for _, s := range segments[:2] { // left of everything else, from 0 on
		read += s.value(row)
	}
	if least, _ := boundPercent(row); read != row.SSDReads || 100*float64(read)/float64(row.Accesses) <= least {
		t.Errorf("the bar shows %d of %d SSD reads, the bound is at %g %%", read, row.SSDReads, least)
	}
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "1,174,000") { // 774,000 fetches and 400,000 by prefetches
		t.Errorf("no SSD reads in\n%s", table.String())
	}
}

// TestCurvesThatCoincide checks that no curve hides another one.
func TestCurvesThatCoincide(t *testing.T) {
	r := sample(t, manySizes)
	for i := range r.Results {
		r.Results[i].SSDReads = uint64(1_000_000 - 10*r.Results[i].GPUFrames)
	}
	g := r.groups()[0]
	c := &curves{group: &g}
	c.sizes, c.axis = sizeAxis(&g)
	seen := map[string]bool{}
	for _, l := range c.collect(readPercent) {
		look := fmt.Sprint(l.dashes, l.ring)
		if seen[look] {
			t.Errorf("%s looks like a curve below it: %s", l.label, look)
		}
		seen[look] = true
	}
	reads, times := c.collect(readPercent), c.collect(modelledTime)
	alike(reads, times)
	for i := range reads {
		if fmt.Sprint(reads[i].dashes, reads[i].ring) != fmt.Sprint(times[i].dashes, times[i].ring) {
			t.Errorf("%s looks different in the two panels", reads[i].label)
		}
	}
	apart := sample(t, manySizes)
	g = apart.groups()[0]
	for _, l := range (&curves{group: &g, sizes: c.sizes}).collect(readPercent) {
		if l.dashes != nil || l.ring != 0 {
			t.Errorf("%s is dashed, but hides nothing", l.label)
		}
	}
}

// TestUnprintableNames checks that a name cannot act on the terminal, nor break
// the picture.
func TestUnprintableNames(t *testing.T) {
	for in, want := range map[string]string{"a b": "a b", "größe": "größe", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "\xff": `"\xff"`, "": ""} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	r := sample(t, manySizes)
	for i := range r.Results {
		r.Results[i].Trace.Name = "evil\n\x1b[31m"
		r.Labels[i] = "lab\x1bel"
	}
	var table, svg strings.Builder
	if err := errors.Join(r.Table(&table), r.Plot(&svg, "svg")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.String(), "\x1b") || !strings.Contains(table.String(), `"evil\n\x1b[31m"`) {
		t.Errorf("raw in the table: %q", table.String()[:80])
	}
	if err := wellFormed(svg.String()); err != nil {
		t.Error(err)
	}
}

func TestCounts(t *testing.T) {
	one := sim.TraceInfo{PageSize: 4096, Accesses: 1, Pages: 1, Requests: 1, Writes: 1, Prefetches: 1}
	if got, want := volume(one), "1 access to 1 distinct page of 4KiB (4KiB), 1 write, 1 prefetch record, 1 request"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := tierText(1, 4096)+tierText(2, 4096), "1 frame (4KiB)2 frames (8KiB)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestOverBound(t *testing.T) {
	for _, c := range []struct {
		reads uint64
		bound *uint64
		want  string
	}{{150, pointer[uint64](100), "+50.0"}, {100, pointer[uint64](100), "+0.0"}, {0, pointer[uint64](0), "+0.0"}, {5, pointer[uint64](0), none}, {5, nil, none}} {
		if got := overBound(&sim.Result{SSDReads: c.reads, BoundReads: c.bound}); got != c.want {
			t.Errorf("%d over %v: %s, want %s", c.reads, c.bound, got, c.want)
		}
	}
}
