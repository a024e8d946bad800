package servicetime

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func load(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPresets(t *testing.T) {
	names := Names()
	for _, want := range []string{"1x980pro", "4x980pro", "a100-970evo", "h200-4xgen5", "v100-1x980pro", "v100-4x980pro"} {
		if !slices.Contains(names, want) {
			t.Errorf("no preset %s among %v", want, names)
		}
	}
	for _, name := range names {
		if m := load(t, name); m.Name != name {
			t.Errorf("preset file %s is named %q inside", name, m.Name)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	var unknown *UnknownModelError
	if _, err := Load("nothing"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "4x980pro") {
		t.Errorf("Load(nothing) = %v, want an *UnknownModelError that lists the presets", err)
	}
	good, err := presets.ReadFile("presets/4x980pro.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown field", "count: 4", "count: 4\n  colour: red", "colour"},
		{"version", "version: 1", "version: 2", "reads version 1"},
		{"no drives", "count: 4", "count: 0", "drives.count"},
		{"negative", "value: 45000", "value: -1", "drives.read.latency_ns must be a positive"},
		{"not a number", "value: 45000", "value: .nan", "drives.read.latency_ns must be a positive"},
		{"kind", "kind: data sheet", "kind: guess", `kind "guess"`},
		{"dangling link", "  write:", "    links: [pcie]\n  write:", `names "pcie"`},
		{"second document", "version: 1", "version: 1\n---\nversion: 1", "more than one YAML document"},
		{"duplicate field", "count: 4", "count: 4\n  count: 5", "already defined"},
		{"infinite", "value: 45000", "value: .inf", "drives.read.latency_ns must be a positive"},
		{"text for a number", "value: 45000", `value: "x"`, "column 25: here must be a number"},
		{"list for a number", "value: 45000", "value: [1]", "here must be a number"},
		{"fields for a whole number", "count: 4", "count: {a: 1}", "here must be a whole number"},
		{"part of a drive", "count: 4", "count: 4.7", "line 7, column 10: here must be a whole number"},
		{"number too large", "count: 4", "count: 1e300", "the number is too large"},
		{"infinite count", "count: 4", "count: .inf", "the number is too large"},
		{"number for fields", "  read:", "  read: 5\n  other:", "line 8, column 9: int was used"},
		{"empty", "", "\n", "holds no YAML document"},
		{"no model", "", "root:x:0", "line 1, column 1: string was used"},
		{"broken", "version: 1", "version: [1", "line "},
		{"two at once", "count: 4\n  read:\n    latency_ns: {value: 45000", "count: 0\n  read:\n    latency_ns: {value: 0", "drives.read.latency_ns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(string(good), c.old, c.new, 1)
			if c.old == "" {
				bad = c.new
			}
			if bad == string(good) {
				t.Fatalf("%q is not in the preset", c.old)
			}
			if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "^|") {
				t.Errorf("error %v, want one that says %q and quotes nothing of the file around", err, c.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Load(file); err != nil || m.Drives.Count != 4 {
		t.Errorf("Load of a file = %v, %v", m, err)
	}
}

// A wrong path is refused, and never waited for.
func TestLoadFileRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, long := filepath.Join(dir, "pipe.yaml"), filepath.Join(dir, "long.yaml")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(long, []byte("# "+strings.Repeat("x", maxFile)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{pipe: "is a pipe", long: "too long", dir + "/": "is a folder"} {
		done := make(chan error, 1)
		go func() {
			_, err := Load(file)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", file, err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: it hangs", file)
		}
	}
}

// simple has round figures, so that expected times can be worked out by hand.
func simple() *Model {
	f := func(v float64) Figure { return Figure{Value: v, Kind: Assumed, Source: "test"} }
	p := func(v float64) *Figure { x := f(v); return &x }
	edge := func(lat, bw, conc float64, links ...string) Edge {
		return Edge{LatencyNS: f(lat), Bandwidth: f(bw), Concurrency: f(conc), Links: links}
	}
	m := &Model{Version: 1, Name: "simple", Links: map[string]Link{"in": {Bandwidth: f(10e9)}, "out": {Bandwidth: f(10e9)}},
		GPU:    &GPU{T1: edge(100, 1e12, 100), T2T1: edge(10000, 20e9, 10, "in"), T1T2: edge(10000, 20e9, 10, "out")},
		Drives: Drives{Count: 2, Read: edge(100000, 4e9, 50, "in"), Write: edge(20000, 2e9, 50, "out")}}
	m.GPU.T1.AccessBytes = p(1000)
	m.Drives.Read.IOPS = p(1e6)
	m.Drives.Write.IOPS = p(5e5)
	return m
}

func TestEstimateByHand(t *testing.T) {
	for _, c := range []struct {
		name       string
		counts     Counts
		bottleneck string
		bound      Bound
		seconds    float64
		serial     float64
	}{
		{"nothing", Counts{PageSize: 4096}, "", "", 0, 0},
		{"t1 by latency and bandwidth alike", Counts{Accesses: 1e6, PageSize: 4096}, "t1", BoundLatency, 1e-3, 1e-3},
		{"small t2 pages by latency", Counts{T2Hits: 1e6, PageSize: 1000}, "t2->t1", BoundLatency, 1, 1},
		{"large t2 pages by the link, not the edge", Counts{T2Hits: 1e6, PageSize: 1e6}, "link:in", BoundBandwidth, 100, 100},
		{"reads by latency over depth and drives", Counts{T3Reads: 1e6, PageSize: 500}, "t3-read", BoundLatency, 1, 1},
		{"writes by iops", Counts{T3Writes: 1e6, PageSize: 500}, "t3-write", BoundIOPS, 1, 1},
		{"reads and writes share the drives, but not their latencies", Counts{T3Reads: 1e6, T3Writes: 1e6, PageSize: 500}, "t3-drives", BoundIOPS, 1.5, 2},
		{"reads and promotions add up on the link", Counts{T2Hits: 1e5, T3Reads: 1e5, PageSize: 1e6}, "link:in", BoundBandwidth, 20, 22.5},
		{"writes from T2 stay off the link", Counts{T3Writes: 1e5, T3WritesFromT2: 1e5, PageSize: 1e6}, "t3-write", BoundBandwidth, 25, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := simple().Estimate(c.counts)
			if e.Bottleneck != c.bottleneck || !near(e.Seconds, c.seconds) || !near(e.SerialSeconds, c.serial) {
				t.Errorf("got %s %v s, serial %v s; want %s %v s, serial %v s", e.Bottleneck, e.Seconds, e.SerialSeconds, c.bottleneck, c.seconds, c.serial)
			}
			for _, edge := range e.Edges {
				if edge.Name == c.bottleneck && edge.Bound != c.bound {
					t.Errorf("bound by %s, want %s", edge.Bound, c.bound)
				}
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestEstimateWithoutGPU(t *testing.T) {
	e := load(t, "4x980pro").Estimate(Counts{Accesses: 10, T2Hits: 1, T3Reads: 1000, PageSize: 65536})
	if !slices.Equal(e.Unmodelled, []string{EdgeT1, EdgeT2T1}) {
		t.Errorf("unmodelled %v, want t1 and t2->t1: their time is not in the sum", e.Unmodelled)
	}
}

// TestEstimateRelations draws counts and checks what must hold for any.
func TestEstimateRelations(t *testing.T) {
	names := Names()
	rapid.Check(t, func(t *rapid.T) {
		m, err := Load(rapid.SampledFrom(names).Draw(t, "model"))
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.Uint64Range(0, 1<<32)
		c := Counts{Accesses: n.Draw(t, "accesses"), T2Hits: n.Draw(t, "t2"), T3Reads: n.Draw(t, "reads"),
			T3Writes: n.Draw(t, "writes"), Demotions: n.Draw(t, "demotions"), PageSize: 512 << rapid.IntRange(0, 11).Draw(t, "shift")}
		e := m.Estimate(c)
		if e.Seconds > e.SerialSeconds*(1+1e-9) {
			t.Fatalf("overlapped %v s is slower than serial %v s", e.Seconds, e.SerialSeconds)
		}
		for name, grow := range map[string]func(*Counts){
			"accesses": func(c *Counts) { c.Accesses *= 2 }, "t2": func(c *Counts) { c.T2Hits *= 2 },
			"reads": func(c *Counts) { c.T3Reads *= 2 }, "writes": func(c *Counts) { c.T3Writes *= 2 },
			"demotions": func(c *Counts) { c.Demotions *= 2 }, "page": func(c *Counts) { c.PageSize *= 2 },
		} {
			more := c
			grow(&more)
			if g := m.Estimate(more); g.Seconds < e.Seconds || g.SerialSeconds < e.SerialSeconds {
				t.Fatalf("twice the %s is faster: %v s after %v s", name, g.Seconds, e.Seconds)
			}
		}
		double := m.Estimate(Counts{2 * c.Accesses, 0, 2 * c.T2Hits, 2 * c.T3Reads, 2 * c.T3Writes, 2 * c.Demotions, 0, c.PageSize})
		if !near(double.Seconds/max(e.Seconds, 1e-30), 2) && e.Seconds > 0 {
			t.Fatalf("twice the work takes %v s, not twice %v s", double.Seconds, e.Seconds)
		}
	})
}

// TestPublishedShape checks the presets against what the study measured: the
// V100's Gen3 link, not four drives, bounds large reads.
func TestPublishedShape(t *testing.T) {
	c := Counts{T3Reads: 1 << 20, PageSize: 65536}
	if e := load(t, "v100-4x980pro").Estimate(c); !strings.HasPrefix(e.Bottleneck, "link:") {
		t.Errorf("four drives on a Gen3 link are bound by %s, want the link", e.Bottleneck)
	}
	if e := load(t, "v100-1x980pro").Estimate(c); e.Bottleneck != EdgeT3Read && e.Bottleneck != EdgeT3Drives {
		t.Errorf("one drive is bound by %s, want the drive", e.Bottleneck)
	}
}

// TestQueueKeepsEstimate runs a closed loop and an open one on the same drive.
func TestQueueKeepsEstimate(t *testing.T) {
	m := load(t, "1x980pro")
	const n = 200000
	for _, c := range []struct {
		name  string
		depth int
		size  uint64
		op    Op
		want  float64 // seconds
	}{
		{"depth 1 by latency", 1, 4096, OpRead, n * 45e-6},
		{"deep by iops", 120, 4096, OpRead, n / 1e6},
		{"deep by bandwidth", 64, 65536, OpRead, n * 65536 / 6.25e9},
		{"deep writes by bandwidth", 64, 65536, OpWrite, n * 65536 / 5e9},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := m.NewQueue(1)
			inFlight := make([]uint64, c.depth)
			var now, last uint64
			for i := range n {
				// The oldest command's slot is the next to be used again.
				now = max(now, inFlight[i%c.depth])
				inFlight[i%c.depth] = q.Submit(now, c.op, c.size)
				last = max(last, inFlight[i%c.depth])
			}
			if got := float64(last) * 1e-9; got < 0.98*c.want || got > 1.05*c.want {
				t.Errorf("%d operations took %v s of virtual time, want about %v s", n, got, c.want)
			}
		})
	}
}

// TestQueueKeepsConcurrency: however many arrive at once, only as many are in
// service as the model allows.
func TestQueueKeepsConcurrency(t *testing.T) {
	q := simple().NewQueue(1) // reads: 100 us, 50 at once, 1 M IOPS
	var last uint64
	for range 1000 {
		last = max(last, q.Submit(0, OpRead, 512))
	}
	if want := uint64(1000 / 50 * 100000); last != want {
		t.Errorf("1000 reads at once end after %d ns, want %d", last, want)
	}
}

func TestQueueIsDeterministic(t *testing.T) {
	m := load(t, "4x980pro")
	a, b, other := m.NewQueue(7), m.NewQueue(7), m.NewQueue(8)
	differ := false
	for i := range uint64(1000) {
		x := a.Submit(i*100, OpRead, 4096)
		if y := b.Submit(i*100, OpRead, 4096); x != y {
			t.Fatalf("operation %d: same seed, %d and %d ns", i, x, y)
		}
		differ = differ || other.Submit(i*100, OpRead, 4096) != x
		if x < i*100 {
			t.Fatalf("operation %d is done before it arrives", i)
		}
	}
	if !differ {
		t.Error("another seed gives the same latencies")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, err := presets.ReadFile("presets/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("version: 1\nname: x\ndrives: {count: 1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		e := m.Estimate(Counts{Accesses: 1, T2Hits: 1, T3Reads: 1, T3Writes: 1, Demotions: 1, PageSize: 4096})
		if math.IsNaN(e.Seconds) || e.Seconds < 0 {
			t.Errorf("a valid model gives %v s", e.Seconds)
		}
	})
}
