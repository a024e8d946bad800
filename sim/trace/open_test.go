package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// packers compress in each way that Open understands.
var packers = map[string]func(w io.Writer) (io.WriteCloser, error){
	"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithWindowSize(1<<27)) },
	"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
}

func pack(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := packers[name](&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// manyIDs is text of n lines.
func manyIDs(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintln(&b, i*i%99991)
	}
	return b.Bytes()
}

func TestCompression(t *testing.T) {
	text := manyIDs(60_000)
	want, err := readBytes(t, text, Options{}, 4096)
	if err != io.EOF {
		t.Fatal(err)
	}
	for name := range packers {
		packed := pack(t, name, text)
		path := filepath.Join(t.TempDir(), "trace")
		if err := os.WriteFile(path, packed, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, r, 4096)
		if err != io.EOF || !slices.Equal(got, want) {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
		if info := r.(Informer).Info(); info.Compression != name {
			t.Errorf("%s: Info says %q", name, info.Compression)
		}
		if done, total := r.(Progresser).Progress(); done != int64(len(packed)) || total != done {
			t.Errorf("%s: progress %d of %d, the file has %d bytes", name, done, total, len(packed))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for _, bad := range [][]byte{packed[:len(packed)-3], packed[:len(packed)/2], packed[:8], damage(packed)} {
			got, err := readBytes(t, bad, Options{Format: "ids"}, 4096)
			if err == nil || err == io.EOF || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, damaged: %d records, then %v", name, len(got), err)
			}
		}
	}
}

// TestPackedOffset: offsets are in what a decompressor gives.
func TestPackedOffset(t *testing.T) {
	oracle := makeOracle(1000, 3)
	clear(oracle[24*500+16 : 24*500+24]) // no next access
	for name := range packers {
		_, err := readBytes(t, pack(t, name, oracle), Options{Format: "oracleGeneral"}, 100)
		if want := "mem: offset 12000 of the decompressed data (oracleGeneral)"; err == io.EOF || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		cut := pack(t, name, manyIDs(60_000))
		_, err = readBytes(t, cut[:len(cut)/2], Options{Format: "ids"}, 100)
		if err == io.EOF || !strings.Contains(err.Error(), " of the decompressed data (ids): its "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readBytes(t, oracle, Options{Format: "oracleGeneral"}, 100); strings.Contains(err.Error(), "decompressed") {
		t.Error(err)
	}
}

// damage flips a bit in the middle.
func damage(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 0x10
	return b
}

// TestDecompressorMemory: a file cannot ask for more than the limit.
func TestDecompressorMemory(t *testing.T) {
	// An xz stream header and a block header that asks for 4 GiB.
	big := []byte{0xfd, '7', 'z', 'X', 'Z', 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46, 2, 0, 0x21, 1, 40, 0, 0, 0}
	if _, err := readBytes(t, big, Options{}, 1); err == nil || !strings.Contains(err.Error(), "dictionary of 4095 MiB") {
		t.Error(err)
	}
	// The same with sizes before the filter.
	big = []byte{0xfd, '7', 'z', 'X', 'Z', 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46, 3, 0xc0, 0x80, 1, 5, 0x21, 1, 39, 0, 0, 0}
	if got := xzDictionary(big); got != 3<<30 {
		t.Errorf("dictionary %d", got)
	}
	// A zstd frame header with a window of 2^41 bytes.
	if _, err := readBytes(t, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8, 1, 0, 0}, Options{}, 1); err == nil {
		t.Error("a window of 2^41 bytes is accepted")
	}
}

// TestOpenFaults: each gives one *Error that names the path.
func TestOpenFaults(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ids := filepath.Join(dir, "ids")
	if err := os.WriteFile(ids, []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, what string
		o          Options
	}{
		{dir, "is a directory", Options{}},
		{filepath.Join(dir, "none"), "no such file", Options{}},
		{filepath.Join(ids, "below"), "not a directory", Options{}},
		{empty, "the file is empty", Options{}},
		{ids, `unknown format "zip"; formats are native, mooncake,`, Options{Format: "zip"}},
		{ids, `unknown order "shuffled"; orders are merged, concatenated`, Options{Order: "shuffled"}},
		{ids, "negative", Options{Limit: -1}},
		{ids, `unknown column "x"`, Options{Format: "csv", Columns: []string{"x"}}},
	} {
		_, err := Open(c.path, c.o)
		te, ok := err.(*Error)
		if !ok || te.Path != c.path || !strings.Contains(te.Error(), c.what) || strings.Count(te.Error(), c.path) != 1 {
			t.Errorf("%s, %+v: %v, want %s", c.path, c.o, err, c.what)
		}
	}
	if os.Geteuid() != 0 { // root reads anything
		if err := os.Chmod(ids, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ids, Options{}); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("unreadable file: %v", err)
		}
	}
}

// TestReadFailure: a failing input is reported once, and stays.
func TestReadFailure(t *testing.T) {
	boom := errors.New("boom")
	r, err := New(io.MultiReader(bytes.NewReader(manyIDs(100_000)), failingReader{boom}), "mem", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, r, 100); len(got) < 90_000 || !errors.Is(err, boom) {
		t.Errorf("%d records, then %v", len(got), err)
	}
	if _, err := New(failingReader{boom}, "mem", Options{}); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := New(failingReader{nil}, "mem", Options{}); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestLimit(t *testing.T) {
	for _, limit := range []int64{1, 7, 99, 1000} {
		r, err := New(bytes.NewReader(manyIDs(100)), "mem", Options{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, r, 10)
		if want := min(limit, 100); err != io.EOF || int64(len(got)) != want || r.(Informer).Info().Format != "ids" {
			t.Errorf("limit %d: %d records, %v", limit, len(got), err)
		}
		if done, _ := r.(Progresser).Progress(); done == 0 {
			t.Error("no progress")
		}
	}
}

func TestReadAfterClose(t *testing.T) {
	for _, in := range []string{"1\n2\n", `{"requests":[{"t":1,"hash_ids":[1]}]}`} {
		r, err := New(strings.NewReader(in), "mem", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n, err := r.Next(make([]Record, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "after Close") {
			t.Errorf("Next after Close: %d, %v", n, err)
		}
	}
}

// TestLongLine: the limit of a line is an error, not an allocation without end.
func TestLongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 64 MiB")
	}
	endless := io.MultiReader(strings.NewReader("1\n"), io.LimitReader(zeros{}, 2*maxWindow))
	r, err := New(endless, "mem", Options{Format: "ids"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, r, 10); len(got) != 1 || err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("%d records, %v", len(got), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, strings.Repeat("0", len(p))), nil }

// sessionTar makes an archive in the shape of kv-cache-tester's.
func sessionTar(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h *tar.Header, body string) {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	write(&tar.Header{Name: "traces/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		write(&tar.Header{Name: "traces/" + name, Size: int64(len(files[name])), Mode: 0o644}, files[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSessionArchive: two sessions, in both orders, in a compressed archive.
func TestSessionArchive(t *testing.T) {
	archive := sessionTar(t, map[string]string{
		"README.txt": "not a session",
		"a.json":     `{"requests":[{"t":0,"hash_ids":[1,2]},{"t":5,"requests":[{"t":2,"hash_ids":[9]}]},{"t":6,"hash_ids":[1,2,3]}]}`,
		"b.json":     `{"requests":[{"t":1,"hash_ids":[1]},{"t":6,"hash_ids":[4]}]}`,
		"c.json":     `{"requests":[]}`,
		"d.json":     `{"requests":[{"t":0,"hash_ids":[5]}]}`,
	})
	type key struct {
		array uint32
		addr  uint64
		sec   uint64
	}
	for order, want := range map[string][]key{
		"":           {{0, 1, 0}, {0, 2, 0}, {3, 5, 0}, {1, 1, 1}, {0, 1, 6}, {0, 2, 6}, {0, 3, 6}, {1, 4, 6}, {0, 9, 7}},
		Concatenated: {{0, 1, 0}, {0, 2, 0}, {0, 9, 7}, {0, 1, 6}, {0, 2, 6}, {0, 3, 6}, {1, 1, 1}, {1, 4, 6}, {3, 5, 0}},
	} {
		r, err := New(bytes.NewReader(pack(t, "zstd", archive)), "mem", Options{Order: order})
		if err != nil {
			t.Fatal(err)
		}
		if info := r.(Informer).Info(); info.Order == "" || order != "" && info.Order != order {
			t.Errorf("Info says order %q", info.Order)
		}
		got, err := readAll(t, r, 2)
		var keys []key
		for _, rec := range got {
			keys = append(keys, key{rec.Array, rec.Addr, rec.Time / 1e9})
		}
		if err != io.EOF || !slices.Equal(keys, want) {
			t.Errorf("%q: %v, %v\nwant %v", order, keys, err, want)
		}
	}
	for _, bad := range [][]byte{archive[:700], archive[:1600], archive[:2048+10]} {
		if _, err := readBytes(t, bad, Options{}, 10); err == io.EOF || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("an archive cut off at %d: %v", len(bad), err)
		}
	}
	for files, what := range map[string]string{"x.txt": "no .json session file", "bad.json": "traces/bad.json: offset 0"} {
		_, err := readBytes(t, sessionTar(t, map[string]string{files: "garbage"}), Options{}, 10)
		if err == io.EOF || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", files, err)
		}
	}
}
