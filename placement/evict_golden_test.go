package placement_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestGoldenMisses replays recorded traces through two tiers: the misses are
// those that libCacheSim and a second, independent program agree on to the
// last one. bfs is left out under -short.
func TestGoldenMisses(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "sim", "testdata", "golden.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var trace, policy string
		var frames, accesses, misses int
		if _, err := fmt.Sscan(lines.Text(), &trace, &policy, &frames, &accesses, &misses); err != nil {
			continue // the heading
		}
		rows++
		if !testing.Short() || trace != "bfs_gnutella31" {
			checkMisses(t, trace, policy, frames, accesses, misses)
		}
	}
	if rows != 98 {
		t.Errorf("golden.tsv has %d rows, want 98", rows)
	}
}

func checkMisses(t *testing.T, trace, policy string, frames, count, want int) {
	t.Helper()
	accesses, pages := load(t, trace)
	if len(accesses) != count {
		t.Fatalf("%s has %d accesses, want %d", trace, len(accesses), count)
	}
	for _, r := range replays {
		if r.name != policy {
			continue
		}
		got, err := r.run(frames, pages, accesses, make([]uint8, pages))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s, %s, %d frames: %d misses, want %d", trace, policy, frames, got, want)
		}
		return
	}
	t.Errorf("no policy %q", policy)
}
