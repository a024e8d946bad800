package workload_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload"
)

// TestProof: what a reference finds right is proved right, and a distance that is changed
// is found wrong, whichever and in whatever way.
func TestProof(t *testing.T) {
	for name, array := range map[string]string{"bfs": "bfs.levels", "sssp": "sssp.costs"} {
		m := open(t, tritier.Config{T1: 20 * page, T2: 20 * page})
		w := sized(t, name, workload.Params{Scale: 9, Iterations: 2})
		if err := errors.Join(w.Setup(t.Context(), m), w.Run(t.Context(), m), w.Verify(t.Context(), m)); err != nil {
			t.Fatal(err)
		}
		undo := workload.ProveFrom(1)
		defer undo()
		if err := w.Verify(t.Context(), m); err != nil {
			t.Fatalf("%s: what the reference has is proved wrong: %v", name, err)
		}
		a, err := tritier.OpenArray[uint32](t.Context(), m, array)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]uint32, a.Len())
		if err := a.Read(t.Context(), 0, all); err != nil {
			t.Fatal(err)
		}
		reached := 0
		for i, is := range all {
			if is != math.MaxUint32 {
				reached++
			}
			for _, put := range []uint32{is + 1, is - 1, math.MaxUint32, 0, rand.Uint32()} {
				if put == is || is == math.MaxUint32 && rand.IntN(10) > 0 {
					continue
				}
				var wrong *workload.Mismatch
				if err := a.Write(t.Context(), uint64(i), []uint32{put}); err != nil {
					t.Fatal(err)
				}
				if err := w.Verify(t.Context(), m); !errors.As(err, &wrong) || wrong.Wrong < 1 || wrong.Array != array {
					t.Errorf("%s: vertex %d has distance %d instead of %d: %v", name, i, put, is, err)
				}
			}
			if err := a.Write(t.Context(), uint64(i), []uint32{is}); err != nil {
				t.Fatal(err)
			}
		}
		// All of them unreached, also the source, satisfy every neighbour.
		for i := range all {
			all[i] = math.MaxUint32
		}
		if err := a.Write(t.Context(), 0, all); err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(t.Context(), m); err == nil || reached < 100 {
			t.Errorf("%s: nothing reached is proved right: %v (%d reached before)", name, err, reached)
		}
	}
}
