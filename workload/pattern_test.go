package workload_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/workload"
)

// recorded is the page accesses of Setup and of Run.
type recorded struct {
	setup, run []tritier.Access
	launches   []string
	w          workload.Workload
	mem        *tritier.Memory
}

func record(t *testing.T, name string, p workload.Params) *recorded {
	t.Helper()
	r := &recorded{}
	to := &r.setup
	r.mem = open(t, tritier.Config{T1: 30 * page, T2: 50 * page, Observe: func(a tritier.Access) { *to = append(*to, a) }})
	p.Launched = func(l workload.Launch) { r.launches = append(r.launches, l.Name) }
	var err error
	if r.w, err = workload.New(name, p); err != nil {
		t.Fatal(err)
	}
	if err := r.w.Setup(t.Context(), r.mem); err != nil {
		t.Fatal(err)
	}
	to = &r.run
	if err := r.w.Run(t.Context(), r.mem); err != nil {
		t.Fatal(err)
	}
	to = new([]tritier.Access)
	return r
}

// pages counts the accesses of a run by array and whether they write, per page.
func (r *recorded) pages(array string, writes bool) float64 {
	n := 0
	for _, a := range r.run {
		if a.Array == array && (a.Op != tier.Read) == writes {
			n++
		}
	}
	for _, info := range r.mem.Arrays() {
		if info.Name == array {
			return float64(n) / float64(info.Pages)
		}
	}
	return -1
}

// TestSetupOrder: Setup writes all arrays in the order of Arrays, every page of each
// once, whole or as its array's last, and sizes are what was asked for.
func TestSetupOrder(t *testing.T) {
	for _, name := range workload.Names() {
		t.Run(name, func(t *testing.T) {
			const want = 1 << 20
			r := record(t, name, workload.Params{Bytes: want, Seed: 5, Iterations: 1})
			var order []string
			pages := map[string]uint64{}
			for i, a := range r.setup {
				if len(order) == 0 || order[len(order)-1] != a.Array {
					order = append(order, a.Array)
				}
				if a.Page != pages[a.Array] {
					t.Fatalf("access %d is of %s, page %d, after %d pages", i, a.Array, a.Page, pages[a.Array])
				}
				pages[a.Array]++
				if last := i+1 == len(r.setup) || r.setup[i+1].Array != a.Array; a.Op != tier.Overwrite && !last {
					t.Fatalf("page %d of %s is not written whole", a.Page, a.Array)
				}
			}
			if !slices.Equal(order, r.w.Arrays()) {
				t.Errorf("filled %v, not %v", order, r.w.Arrays())
			}
			var bytes uint64
			for _, a := range r.mem.Arrays() {
				bytes += a.Length * uint64(a.Size)
				if pages[a.Name] != a.Pages {
					t.Errorf("%d of %d pages of %s were filled", pages[a.Name], a.Pages, a.Name)
				}
			}
			// Duplicate edges are dropped from graphs.
			if bytes != r.w.Size() || bytes > want || bytes < want*6/10 {
				t.Errorf("%d bytes in arrays, %d by Size, %d wanted", bytes, r.w.Size(), want)
			}
		})
	}
}

// TestPatterns: how often a page of each array is read and written in a run follows
// from the program.
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name       string
		p          workload.Params
		array      string
		read, writ float64 // accesses per page
		within     float64
	}{
		{"multi-vector-add", workload.Params{Scale: 16, Iterations: 3}, "vectoradd.in1", 3, 0, 0.01},
		{"multi-vector-add", workload.Params{Scale: 16, Iterations: 3}, "vectoradd.out", 0, 3, 0.01},
		// Tiles of 16 pages overlap by a page at each end; 100 rows are not whole pages.
		{"pathfinder", workload.Params{Bytes: 4 << 20, Batch: 1 << 14}, "pathfinder.wall", 1.15, 0, 0.2},
		{"pathfinder", workload.Params{Bytes: 4 << 20, Batch: 1 << 14}, "pathfinder.result0", 3, 3, 0.5},
		// 8 bands of 8 pages, each with a page of halo on either side, but for the edges.
		{"hotspot", workload.Params{Scale: 16, Iterations: 8, Batch: 1 << 13}, "hotspot.temp0", 2 * 78. / 64, 2, 0.001},
		{"hotspot", workload.Params{Scale: 16, Iterations: 8, Batch: 1 << 13}, "hotspot.power", 4 * 78. / 64, 0, 0.001},
		{"srad", workload.Params{Scale: 16, Iterations: 2, Batch: 1 << 13}, "srad.north", 2, 2, 0.01},
		{"srad", workload.Params{Scale: 16, Iterations: 2, Batch: 1 << 13}, "srad.coefficient", 2.2, 2, 0.1},
		{"backprop", workload.Params{Bytes: 2 << 20, Iterations: 2, Batch: 1 << 16}, "backprop.weights", 4.2, 2, 0.4},
		{"backprop", workload.Params{Bytes: 2 << 20, Iterations: 2, Batch: 1 << 16}, "backprop.previous", 2.2, 2.2, 0.3},
		{"pagerank", workload.Params{Scale: 12, Iterations: 3, Batch: 1 << 14}, "pagerank.edges", 3.2, 0, 0.3},
	} {
		t.Run(c.name+"/"+c.array, func(t *testing.T) {
			c.p.Seed = 9
			r := record(t, c.name, c.p)
			for _, x := range []struct {
				what   string
				writes bool
				want   float64
			}{{"read", false, c.read}, {"written", true, c.writ}} {
				if got := r.pages(c.array, x.writes); math.Abs(got-x.want) > c.within {
					t.Errorf("a page of %s is %s %.3f times, want %g (within %g)", c.array, x.what, got, x.want, c.within)
				}
			}
		})
	}
}

// TestLaunches: programs launch the kernels of the originals.
func TestLaunches(t *testing.T) {
	count := func(list []string, name string) (n int) {
		for _, l := range list {
			if l == name {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		name, kernel string
		iterations   int
		want         int
	}{
		{"pathfinder", "rows", 2, 10}, {"hotspot", "heat", 5, 3}, {"srad", "diffusion", 3, 3}, {"srad", "noise", 3, 3},
		{"backprop", "adjust", 2, 2}, {"pagerank", "pull", 4, 4}, {"embedding-gather", "gather", 3, 3}, {"bfs", "clear", 2, 2},
	} {
		r := record(t, c.name, workload.Params{Bytes: 300 << 10, Iterations: c.iterations, Seed: 3})
		if got := count(r.launches, c.kernel); got != c.want {
			t.Errorf("%s launches %s %d times in %d iterations, want %d", c.name, c.kernel, got, c.iterations, c.want)
		}
	}
	r := record(t, "sssp", workload.Params{Scale: 10, Seed: 3})
	if relax, settle := count(r.launches, "relax"), count(r.launches, "settle"); relax != settle || relax < 3 {
		t.Errorf("%d launches of relax and %d of settle", relax, settle)
	}
}

// TestSeeds: accesses are a function of the parameters, and of the seed where data
// decide about them.
func TestSeeds(t *testing.T) {
	for _, name := range []string{"bfs", "sssp", "pagerank", "embedding-gather"} {
		a, b := record(t, name, workload.Params{Scale: 9, Seed: 1}), record(t, name, workload.Params{Scale: 9, Seed: 1})
		if !slices.Equal(a.run, b.run) {
			t.Errorf("%s: two runs of one seed differ", name)
		}
		if c := record(t, name, workload.Params{Scale: 9, Seed: 2}); slices.Equal(a.run, c.run) {
			t.Errorf("%s: two seeds make the same accesses", name)
		}
	}
}

// TestPrefetch: what is prefetched is accessed next, in T1, and results stay what they are.
func TestPrefetch(t *testing.T) {
	for _, k := range workload.Kinds() {
		p := workload.Params{Bytes: 1 << 20, Seed: 8, Batch: 1024, Iterations: 2, Prefetch: true}
		if !k.Prefetches {
			if _, err := workload.New(k.Name, p); err == nil {
				t.Errorf("%s is said to prefetch", k.Name)
			}
			continue
		}
		r := record(t, k.Name, p)
		s := r.mem.Stats().Counters
		if s.Prefetches == 0 || s.PrefetchReads == 0 {
			t.Errorf("%s: %+v", k.Name, s)
		}
		pending := map[tritier.Access]bool{}
		for _, a := range r.run {
			op := a.Op
			a.Op = tier.Read
			if op == tier.Prefetch {
				pending[a] = true
			} else if op == tier.Read {
				delete(pending, a)
			}
		}
		if len(pending) > 0 {
			t.Errorf("%s: %d pages were prefetched and never accessed", k.Name, len(pending))
		}
		if err := r.w.Verify(t.Context(), r.mem); err != nil {
			t.Error(err)
		}
	}
}

// TestZipf: popular rows are few, and spread over the table.
func TestZipf(t *testing.T) {
	r := record(t, "embedding-gather", workload.Params{Scale: 14, Seed: 4})
	hits := map[uint64]int{}
	for _, a := range r.run {
		if a.Array == "embedding.table" {
			hits[a.Page]++
		}
	}
	var counts []int
	total := 0
	for _, n := range hits {
		counts = append(counts, n)
		total += n
	}
	slices.Sort(counts)
	top := 0
	for _, n := range counts[len(counts)*9/10:] {
		top += n
	}
	if share := float64(top) / float64(total); len(counts) < 900 || share < 0.2 || share > 0.6 {
		t.Errorf("%d of 1024 pages are looked up, a tenth of them takes %.2f of the accesses", len(counts), share)
	}
}

// TestVerifyFindsMistakes: one wrong element of a result is found and named.
func TestVerifyFindsMistakes(t *testing.T) {
	results := map[string]string{"multi-vector-add": "vectoradd.out", "hotspot": "hotspot.temp1", "srad": "srad.image", "backprop": "backprop.weights", "pagerank": "pagerank.ranks"}
	for name, array := range results {
		r := record(t, name, workload.Params{Bytes: 300 << 10, Iterations: 1, Seed: 6})
		a, err := tritier.OpenArray[float32](t.Context(), r.mem, array)
		if err != nil {
			t.Fatal(err)
		}
		wrong := make([]float32, 1)
		at := a.Len() - 3
		if err := a.Read(t.Context(), at, wrong); err != nil {
			t.Fatal(err)
		}
		wrong[0] = math.Float32frombits(math.Float32bits(wrong[0]) ^ 1)
		if err := a.Write(t.Context(), at, wrong); err != nil {
			t.Fatal(err)
		}
		var m *workload.Mismatch
		if err := r.w.Verify(t.Context(), r.mem); !errors.As(err, &m) || m.Array != array || m.Index != at || m.Wrong != 1 || m.Of != a.Len() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelled: a run that is ended at any access says so, and leaves the memory usable.
func TestCancelled(t *testing.T) {
	for _, name := range workload.Names() {
		accessed := func() {}
		m := open(t, tritier.Config{T1: 9 * page, T2: 20 * page, Observe: func(tritier.Access) { accessed() }})
		w := small(t, name, 2000)
		if err := w.Setup(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		for _, after := range []int{1, 7, 100} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause, n := errors.New("enough"), 0
			accessed = func() {
				if n++; n == after {
					cancel(cause)
				}
			}
			if err := w.Run(ctx, m); !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended at access %d of %d: %v", name, after, n, err)
			}
			cancel(nil)
			if err := m.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		accessed = func() {}
		if err := errors.Join(w.Setup(t.Context(), m), w.Run(t.Context(), m), w.Verify(t.Context(), m)); err != nil {
			t.Errorf("%s, once more: %v", name, err)
		}
	}
}

// TestRefusals of parameters, and of a Verify before there is anything.
func TestRefusals(t *testing.T) {
	for _, p := range []workload.Params{{}, {Bytes: 1000}, {Scale: 41}, {Scale: -1}, {Scale: 10, Bytes: 1 << 20}, {Scale: 10, Iterations: -1}, {Scale: 10, Batch: -1}, {Scale: 10, Batch: 1 << 30}} {
		if _, err := workload.New("bfs", p); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
	if _, err := workload.New("none", workload.Params{Scale: 10}); err == nil {
		t.Error("an unknown name is accepted")
	}
	m := open(t, tritier.Config{T1: 4 * page})
	for _, name := range workload.Names() {
		w, err := workload.New(name, workload.Params{Scale: 10})
		if err != nil {
			t.Fatal(err)
		}
		if w.Verify(t.Context(), m) == nil {
			t.Errorf("%s verifies what was not set up", name)
		}
		if w.Describe() == "" || w.Size() == 0 || w.Name() != name {
			t.Errorf("%s: %q, %d bytes", w.Name(), w.Describe(), w.Size())
		}
	}
}
