package workload

import (
	"slices"
	"testing"
)

// TestGraph: every edge that is drawn is in both of its lists and nothing else is;
// labels are a permutation; degrees are those of a power law.
func TestGraph(t *testing.T) {
	for _, scale := range []int{1, 2, 3, 5, 10, 14} { // up to 11 a range is one vertex
		k := kronecker{scale: scale, seed: uint64(scale)}
		n, drawn := uint64(1)<<scale, uint64(16)<<scale
		seen := make([]bool, n)
		draws := k.drawer()
		for v := range uint32(n) {
			seen[draws.label(v)] = true
		}
		if slices.Contains(seen, false) {
			t.Errorf("scale %d: labels are no permutation", scale)
		}
		want := map[[2]uint32]bool{}
		for i := range drawn {
			if u, v := draws.edge(i); u != v {
				want[[2]uint32{u, v}], want[[2]uint32{v, u}] = true, true
			}
		}
		g, err := generate(t.Context(), k, drawn)
		if err != nil {
			t.Fatal(err)
		}
		if g.vertices() != n || uint64(len(g.edges)) != g.offsets[n] || len(g.edges) != len(want) {
			t.Fatalf("scale %d: %d vertices, %d neighbours, offsets to %d, %d wanted", scale, g.vertices(), len(g.edges), g.offsets[n], len(want))
		}
		most := uint64(0)
		for v := range uint32(n) {
			list := g.of(v)
			if !slices.IsSorted(list) {
				t.Fatalf("scale %d: neighbours of %d are in disorder", scale, v)
			}
			for _, to := range list {
				if !want[[2]uint32{v, to}] {
					t.Fatalf("scale %d: %d to %d was not drawn", scale, v, to)
				}
			}
			most = max(most, g.degree(v))
		}
		if mean := uint64(len(g.edges)) / n; scale == 10 && (mean < 15 || most < 8*mean) {
			t.Errorf("scale %d: mean degree %d, largest %d", scale, mean, most)
		}
	}
	for at, v := range map[uint64]int{0: 1, 1: 1, 2: 3, 4: 3, 5: 4} {
		if got := vertexOf([]uint64{0, 0, 2, 2, 5, 6}, at); got != v {
			t.Errorf("edge %d is of vertex %d, not %d", at, got, v)
		}
	}
}

// TestGraphRanges: a graph is the same whatever the size of the ranges that it is built in, up to
// the largest, whose last vertex has the number 2^16-1.
func TestGraphRanges(t *testing.T) {
	const scale, drawn = 17, 1 << 20
	k := kronecker{scale: scale, seed: 1}
	lists := make([][]uint32, 1<<scale)
	draws := k.drawer()
	for i := range uint64(drawn) {
		if u, v := draws.edge(i); u != v {
			lists[u], lists[v] = append(lists[u], v), append(lists[v], u)
		}
	}
	for v, list := range lists {
		slices.Sort(list)
		lists[v] = slices.Compact(list)
	}
	if rangeShift(30) != 16 || len(lists[1<<16-1]) == 0 || len(lists[1<<17-1]) == 0 {
		t.Fatal("the last vertices of the largest ranges have no neighbour: take another seed")
	}
	for _, shift := range []int{6, 15, 16} {
		g, err := build(t.Context(), k, drawn, shift)
		if err != nil {
			t.Fatal(err)
		}
		for v, want := range lists {
			if got := g.of(uint32(v)); !slices.Equal(got, want) {
				t.Fatalf("ranges of 2^%d vertices: vertex %d has neighbours %v, want %v", shift, v, got, want)
			}
		}
	}
}
