package workload

import (
	"context"
	"errors"
	"sync"

	"github.com/tritier/tritier"
)

// provedFrom is how many vertices a graph has at least whose searches are proved right
// instead of compared with another search, whose one thread would take minutes.
var provedFrom uint64 = 1 << 21

// prove says whether an array holds the distances from a source over the graph, whose
// edges have the lengths given, more than 0 and the same both ways. Distances are right
// if and only if that of the source is 0, and every other one is the least that a
// neighbour's and the edge to it come to: then each is the length of a path, since a
// neighbour on it is nearer and so on to the source, and no path is shorter, by induction
// along it. unreached stands for no path. A *Mismatch has what the neighbours come to.
func (w *graphBase) prove(ctx context.Context, a *tritier.Array[uint32], source uint32, length func(u, v uint32) uint32) error {
	if a == nil {
		return errors.New("there is nothing to prove: Setup and Run come first")
	}
	got := make([]uint32, a.Len())
	size := perFill[uint32]()
	if err := batches(a.Len(), size, func(low, high uint64) error { return a.Read(ctx, low, got[low:high]) }); err != nil {
		return err
	}
	var mu sync.Mutex
	var m *Mismatch
	wrong := func(v uint64, want uint32) {
		mu.Lock()
		defer mu.Unlock()
		if m == nil {
			m = &Mismatch{Array: a.Name(), Index: v, Got: got[v], Want: want, Of: a.Len()}
		}
		if m.Wrong++; v < m.Index {
			m.Index, m.Got, m.Want = v, got[v], want
		}
	}
	err := parallel(ctx, a.Len(), 1<<12, func(low, high uint64) {
		for v := low; v < high; v++ {
			if want := w.nearest(got, uint32(v), source, length); got[v] != want {
				wrong(v, want)
			}
		}
	})
	if err == nil && m != nil {
		return m
	}
	return err
}

// nearest is the distance that a vertex has by its neighbours'.
func (w *graphBase) nearest(distances []uint32, v, source uint32, length func(u, v uint32) uint32) uint32 {
	if v == source {
		return 0
	}
	least := uint32(unreached)
	for _, u := range w.g.of(v) {
		if d := distances[u]; d != unreached {
			least = min(least, d+length(u, v))
		}
	}
	return least
}
