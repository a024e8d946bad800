package trace

import (
	"io"
	"testing"
)

// pageKey is a page's identity.
type pageKey struct {
	array uint32
	page  uint64
}

// tally is what a trace holds.
type tally struct {
	accesses, distinct, requests, writes int
}

// count reads all accesses of r.
func count(t testing.TB, r Reader, pageSize uint64) (c tally) {
	t.Helper()
	s := NewSplitter(r, pageSize)
	defer s.Close()
	seen := map[pageKey]struct{}{}
	acc := make([]Access, 1000)
	for {
		n, err := s.Next(acc)
		if err == io.EOF {
			c.distinct = len(seen)
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range acc[:n] {
			c.accesses++
			seen[pageKey{a.Array, a.Page}] = struct{}{}
			if a.RequestStart {
				c.requests++
			}
			if a.Op == Write {
				c.writes++
			}
		}
	}
}

// TestGolden counts what the real traces hold. The figures are those of
// testdata/ATTRIBUTION.md where it has them; the others were counted with awk.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file, format, compression string
		want                      tally
		pageSize                  uint64
	}{
		{"mooncake_conversation.jsonl.zst", "mooncake", "zstd", tally{288_500, 182_790, 12_031, 0}, 0},
		{"mooncake_synthetic.jsonl.zst", "mooncake", "zstd", tally{121_877, 43_924, 3_993, 0}, 0},
		{"arc_OLTP.lis.zst", "lis", "zstd", tally{914_145, 186_880, 914_145, 0}, 0},
		{"gnutella31_bfs.txt.zst", "ids", "zstd", tally{2_366_048, 62_561, 0, 0}, 0},
		{"lackey_sort.txt.zst", "ids", "zstd", tally{7_421_628, 322, 0, 2_498_308}, 0},
		{"lirs_loop.trace.gz", "ids", "gzip", tally{505_500, 1_011, 0, 0}, 0},
		{"lirs_multi3.trace.gz", "ids", "gzip", tally{30_241, 7_454, 0, 0}, 0},
		{"lirs_sprite.trace.gz", "ids", "gzip", tally{133_996, 7_075, 0, 0}, 0},
		{"lirs_cpp.trace.gz", "ids", "gzip", tally{9_047, 1_223, 0, 0}, 0},
		{"lirs_cs.trace.gz", "lirs", "gzip", tally{6_781, 1_409, 3, 0}, 0},
		{"mqsim_tpcc-small.trace.zst", "mqsim", "zstd", tally{20_669, 20_470, 6_999, 7_995}, 4096},
		{"mqsim_tpcc-small.trace.zst", "mqsim", "zstd", tally{10_081, 9_915, 6_999, 3_864}, 16384},
		{"lirs_2_pools.trace.gz", "lirs", "gzip", tally{100_000, 9_939, 3, 0}, 0},
	} {
		t.Run(c.file, func(t *testing.T) {
			r, err := Open("testdata/"+c.file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if info := r.(Informer).Info(); info.Format != c.format || info.Compression != c.compression {
				t.Errorf("read as %s, %s; want %s, %s", info.Format, info.Compression, c.format, c.compression)
			}
			if got := count(t, r, c.pageSize); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
