package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// decompressed writes a testdata file, decompressed, to a temporary folder.
func decompressed(b *testing.B, name string) string {
	b.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	in := &input{path: name, raw: &countingReader{r: f}}
	in.src = in.raw
	if err := decompress(in); err != nil {
		b.Fatal(err)
	}
	defer in.close()
	data, err := io.ReadAll(in)
	if err != nil {
		b.Fatal(err)
	}
	return tempFile(b, data)
}

func tempFile(b *testing.B, data []byte) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "trace")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// benchmarkRead reads the file at path from its start, open and detection
// included, and reports millions of records a second.
func benchmarkRead(b *testing.B, path string) {
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	recs := make([]Record, 1024)
	var records int64
	for b.Loop() {
		r, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			n, err := r.Next(recs)
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			records += int64(n)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

// makeOracle makes n oracleGeneral records over pages of a skewed popularity,
// with true next-access fields.
func makeOracle(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n*oracleSize)
	next := map[uint64]int64{}
	for i := n - 1; i >= 0; i-- {
		b := out[i*oracleSize:]
		id := uint64(rng.ExpFloat64() * 10_000)
		at, ok := next[id]
		if !ok {
			at = -1
		}
		next[id] = int64(i)
		binary.LittleEndian.PutUint32(b, uint32(i/1000))
		binary.LittleEndian.PutUint64(b[4:], id)
		binary.LittleEndian.PutUint32(b[12:], 4096)
		binary.LittleEndian.PutUint64(b[16:], uint64(at))
	}
	return out
}

func BenchmarkReadOracle(b *testing.B) { benchmarkRead(b, tempFile(b, makeOracle(2_000_000, 1))) }

func BenchmarkReadMooncake(b *testing.B) {
	benchmarkRead(b, decompressed(b, "mooncake_conversation.jsonl.zst"))
}

func BenchmarkReadLis(b *testing.B) { benchmarkRead(b, decompressed(b, "arc_OLTP.lis.zst")) }

func BenchmarkReadIDs(b *testing.B) { benchmarkRead(b, decompressed(b, "gnutella31_bfs.txt.zst")) }

func BenchmarkReadIDsHex(b *testing.B) { benchmarkRead(b, decompressed(b, "lackey_sort.txt.zst")) }

func BenchmarkReadNative(b *testing.B) {
	r, err := Open("testdata/arc_OLTP.lis.zst", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	recs, err := readAll(b, r, 4096)
	if err != io.EOF {
		b.Fatal(err)
	}
	benchmarkRead(b, tempFile(b, writeNative(b, Header{}, recs, len(recs))))
}

func BenchmarkReadCSV(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("time,page,op\n")
	for i := range 500_000 {
		fmt.Fprintf(&text, "%d.5,%d,R\n", i, i*i%9973)
	}
	benchmarkRead(b, tempFile(b, text.Bytes()))
}

// BenchmarkSplit splits records that are in memory: page-addressed ones, byte
// ranges of about two pages, and warps of 32 lanes.
func BenchmarkSplit(b *testing.B) {
	pages, ranges, warps := make([]Record, 1<<20), make([]Record, 1<<20), make([]Record, 1<<20)
	for i := range pages {
		pages[i] = Record{Addr: uint64(i * 7), Flags: PageAddressed}
		ranges[i] = Record{Addr: uint64(i * 7000), Bytes: 4096, Op: Write}
		warps[i] = Record{Addr: uint64(i * 4), Bytes: 4, Flags: SameGroup}
		if i%32 == 0 {
			warps[i].Flags = 0
		}
	}
	for _, c := range []struct {
		name string
		recs []Record
	}{{"pages", pages}, {"ranges", ranges}, {"warps", warps}} {
		b.Run(c.name, func(b *testing.B) {
			acc := make([]Access, 1024)
			for b.Loop() {
				s := NewSplitter(&memReader{recs: c.recs}, 4096)
				for {
					if _, err := s.Next(acc); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(len(c.recs))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

// memReader yields records from memory.
type memReader struct {
	recs []Record
	err  error // after the records; nil means io.EOF
}

func (m *memReader) Next(recs []Record) (int, error) {
	n := copy(recs, m.recs)
	m.recs = m.recs[n:]
	if n > 0 || len(recs) == 0 {
		return n, nil
	}
	if m.err != nil {
		return 0, m.err
	}
	return 0, io.EOF
}

func (m *memReader) Close() error { return nil }
