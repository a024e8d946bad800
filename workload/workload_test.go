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
func small(t *testing.T, name string) workload.Workload {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w, err := workload.New(name, workload.Params{Bytes: 600 << 10, Seed: seed, Batch: 5000})
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
				m, w := open(t, c), small(t, name)
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
