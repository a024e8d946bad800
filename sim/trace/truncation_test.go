package trace

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// packed is a compressed trace and the lengths at which a prefix of it is a
// complete trace of its own.
type packed struct {
	name string
	data []byte
	ends []int
}

// parts joins compressed pieces, each of which is complete.
func parts(name string, pieces ...[]byte) packed {
	p := packed{name: name}
	for _, b := range pieces {
		p.data = append(p.data, b...)
		p.ends = append(p.ends, len(p.data))
	}
	return p
}

// xzOf makes an xz stream of blocks of 64 bytes.
func xzOf(t testing.TB, check byte, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 12, BlockSize: 64, CheckSum: check, NoCheckSum: check == xz.None}.NewWriter(&b)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zstdBlocks makes a frame of several blocks.
func zstdBlocks(t testing.TB, text []byte, checksum bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderCRC(checksum), zstd.WithEncoderConcurrency(1))
	for half := range slices.Chunk(text, len(text)/2) {
		if err == nil {
			_, err = w.Write(half)
		}
		if err == nil {
			err = w.Flush()
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// multiparts are traces of several members, frames, streams and blocks.
func multiparts(t testing.TB) []packed {
	text := manyIDs(40)
	skippable := append([]byte{0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0}, "hello"...)
	padded := append(xzOf(t, xz.CRC64, text), 0, 0, 0, 0, 0, 0, 0, 0)
	p := []packed{
		parts("gzip", pack(t, "gzip", text), pack(t, "gzip", text), pack(t, "gzip", nil), pack(t, "gzip", text)),
		parts("zstd", zstdBlocks(t, text, true), zstdBlocks(t, text, false), skippable, pack(t, "zstd", text), skippable),
		parts("xz", xzOf(t, xz.CRC64, text), xzOf(t, xz.None, text), xzOf(t, xz.CRC32, text)),
		parts("xz", xzOf(t, xz.SHA256, text), padded),
	}
	end := len(p[3].data)
	p[3].ends = append(p[3].ends, end-4, end-8)
	return p
}

// TestEveryCut: every prefix of compressed data is an error, unless it ends
// where a member, frame or stream ends, which no reader can see.
func TestEveryCut(t *testing.T) {
	for _, p := range multiparts(t) {
		for cut := 1; cut <= len(p.data); cut++ {
			got, err := readBytes(t, p.data[:cut], Options{Format: "ids"}, 4096)
			whole := slices.Contains(p.ends, cut)
			if whole != (err == io.EOF) {
				t.Errorf("%s, %d of %d bytes: %d records, then %v; complete: %v", p.name, cut, len(p.data), len(got), err, whole)
			}
		}
	}
}

// TestArchiveCut: an archive has an end mark, and what compresses it an end
// after that.
func TestArchiveCut(t *testing.T) {
	archive := sessionTar(t, map[string]string{
		"a.json": `{"requests":[{"t":0,"hash_ids":[1,2]}]}`,
		"b.json": `{"requests":[{"t":1,"hash_ids":[1]}]}`,
	})
	for cut := 1; cut < len(archive)-512; cut += 7 {
		cut := cut - cut%512*(cut%2) // half of the cuts are between blocks
		if got, err := readBytes(t, archive[:cut], Options{Format: "kv-cache-tester"}, 10); err == io.EOF {
			t.Errorf("%d of %d bytes: %d records", cut, len(archive), len(got))
		}
	}
	for name := range packers {
		data := pack(t, name, append(bytes.Clone(archive), make([]byte, 1<<20)...))
		for n := 1; n <= 20; n++ {
			got, err := readBytes(t, data[:len(data)-n], Options{}, 10)
			if err == io.EOF || !strings.Contains(err.Error(), name) {
				t.Errorf("%s without %d bytes: %d records, then %v", name, n, len(got), err)
			}
		}
	}
}

// TestTrailingData: other bytes after compressed data are told from damage.
func TestTrailingData(t *testing.T) {
	const what = "other data follows"
	for _, p := range multiparts(t) {
		for n := 1; n <= 40; n++ {
			for _, c := range []string{"\n", "x", "P"} {
				in := append(bytes.Clone(p.data), strings.Repeat(c, n)...)
				got, err := readBytes(t, in, Options{Format: "ids"}, 4096)
				if err == io.EOF || !strings.Contains(err.Error(), what) {
					t.Errorf("%s and %d times %q: %d records, then %v", p.name, n, c, len(got), err)
				}
			}
		}
	}
}
