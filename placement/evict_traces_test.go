package placement_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// traces are the recorded traces that counts and speeds are measured on, by the
// name that golden.tsv gives them. They are in the trace package's testdata,
// with their attribution; the readers here are independent of that package.
var traces = map[string]struct {
	file  string
	parse func(line string, ids []uint64) ([]uint64, error)
}{
	"arc_OLTP":              {"arc_OLTP.lis.zst", parseLis},
	"bfs_gnutella31":        {"gnutella31_bfs.txt.zst", parseID},
	"lirs_loop":             {"lirs_loop.trace.gz", parseID},
	"lirs_multi3":           {"lirs_multi3.trace.gz", parseID},
	"mooncake_conversation": {"mooncake_conversation.jsonl.zst", parseMooncake},
	"mooncake_synthetic":    {"mooncake_synthetic.jsonl.zst", parseMooncake},
}

// loaded is a trace with dense page indices.
type loaded struct {
	accesses []uint32
	pages    int
	err      error
}

var loads sync.Map // trace name -> func() loaded

// load reads a trace once for all tests.
func load(tb testing.TB, name string) ([]uint32, int) {
	tb.Helper()
	f, _ := loads.LoadOrStore(name, sync.OnceValue(func() loaded { return read(name) }))
	l := f.(func() loaded)()
	if l.err != nil {
		tb.Fatal(l.err)
	}
	return l.accesses, l.pages
}

func read(name string) loaded {
	t := traces[name]
	f, err := os.Open(filepath.Join("..", "sim", "trace", "testdata", t.file))
	if err != nil {
		return loaded{err: err}
	}
	defer f.Close()
	text, err := decompress(f, t.file)
	if err != nil {
		return loaded{err: err}
	}
	var ids []uint64
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if ids, err = t.parse(lines.Text(), ids); err != nil {
			return loaded{err: err}
		}
	}
	if err := lines.Err(); err != nil {
		return loaded{err: err}
	}
	return densify(ids)
}

func decompress(r io.Reader, name string) (io.Reader, error) {
	if strings.HasSuffix(name, ".gz") {
		return gzip.NewReader(r)
	}
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
}

// densify numbers the ids in the order of their first access.
func densify(ids []uint64) loaded {
	index := map[uint64]uint32{}
	accesses := make([]uint32, len(ids))
	for i, id := range ids {
		p, ok := index[id]
		if !ok {
			p = uint32(len(index))
			index[id] = p
		}
		accesses[i] = p << 2
	}
	return loaded{accesses: accesses, pages: len(index)}
}

func parseID(line string, ids []uint64) ([]uint64, error) {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "*") {
		return ids, nil
	}
	id, err := strconv.ParseUint(line, 10, 64)
	return append(ids, id), err
}

func parseLis(line string, ids []uint64) ([]uint64, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return ids, nil
	}
	start, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return ids, err
	}
	n, err := strconv.ParseUint(fields[1], 10, 32)
	for i := range n {
		ids = append(ids, start+i)
	}
	return ids, err
}

func parseMooncake(line string, ids []uint64) ([]uint64, error) {
	var request struct {
		HashIDs []uint64 `json:"hash_ids"`
	}
	err := json.Unmarshal([]byte(line), &request)
	return append(ids, request.HashIDs...), err
}
