package workload_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = 4096

// open opens a Memory in memory that is far smaller than the data, and closes it
// when the test ends.
func open(t *testing.T, c tritier.Config) *tritier.Memory {
	t.Helper()
	c.Store, c.GPU, c.PageSize = "mem:32MiB", "none", page
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Check(), m.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return m
}

// small is a workload of a few hundred pages, whose batches are several.
func small(t *testing.T, name string, batch int) workload.Workload {
	t.Helper()
	return sized(t, name, workload.Params{Bytes: 600 << 10, Batch: batch})
}

func sized(t *testing.T, name string, p workload.Params) workload.Workload {
	t.Helper()
	p.Seed = rand.Uint64()
	t.Logf("seed %d", p.Seed)
	w, err := workload.New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestResults: whatever the policy and sizes, each workload computes what its
// reference does, twice in a row too.
func TestResults(t *testing.T) {
	for _, name := range workload.Names() {
		for i, c := range []tritier.Config{
			{T1: 4 * page, T2: 8 * page, Policy: "gmt-reuse"},
			{T1: 20 * page, Policy: "bypass"},
			{T1: 40 * page, T2: 60 * page, Policy: "tier-order{t1=lru,t2=lru,t2copy=keep}"},
		} {
			if testing.Short() && i == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				m, w := open(t, c), small(t, name, []int{300, 5000, 1000}[i])
				if err := w.Setup(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(w.Run(t.Context(), m), w.Verify(t.Context(), m)); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestSmallest: shapes that are all border, and batches of all sizes against them.
func TestSmallest(t *testing.T) {
	for _, name := range workload.Names() {
		for _, scale := range []int{2, 3, 5, 8} {
			m := open(t, tritier.Config{T1: 3 * page, T2: 2 * page})
			for _, batch := range []int{1, 7, 1 << 18} {
				if testing.Short() && batch == 1 {
					continue
				}
				w := sized(t, name, workload.Params{Scale: scale, Batch: batch, Iterations: 3})
				if err := errors.Join(w.Setup(t.Context(), m), w.Run(t.Context(), m), w.Verify(t.Context(), m)); err != nil {
					t.Errorf("%s of scale %d in batches of %d: %v", name, scale, batch, err)
				}
				for _, a := range w.Arrays() { // the next graph has another length
					if err := m.DropArray(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}
