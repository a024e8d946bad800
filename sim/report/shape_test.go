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
	for in, want := range map[float64]string{0: "0", 1e-12: "0", 3.55e-6: "0.00000355", 0.0123456: "0.0123", 0.999: "0.999", 1.005: "1.00",
		12.34: "12.3", 123.4: "123", 1234.6: "1,235", 1e7: "10,000,000"} {
		if got := seconds(in); got != want {
			t.Errorf("%g: %s, want %s", in, got, want)
		}
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
