package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// writeNative encodes records, in pieces of the given size.
func writeNative(t testing.TB, h Header, recs []Record, piece int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, h)
	for len(recs) > 0 {
		k := min(piece, len(recs))
		if err := w.Write(recs[:k]); err != nil {
			t.Fatal(err)
		}
		recs = recs[k:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readBytes reads a trace in memory.
func readBytes(t testing.TB, data []byte, o Options, batch int) ([]Record, error) {
	t.Helper()
	r, err := New(bytes.NewReader(data), "mem", o)
	if err != nil {
		var te *Error
		if !errors.As(err, &te) {
			t.Fatalf("%T is not an *Error: %v", err, err)
		}
		return nil, err
	}
	defer r.Close()
	return readAll(t, r, batch)
}

// drawRecords makes records of every kind that a trace can have.
func drawRecords(t *rapid.T) []Record {
	one := rapid.Custom(func(t *rapid.T) Record {
		small := rapid.Uint64Range(0, 1000)
		return Record{
			Addr:  rapid.OneOf(small, rapid.Uint64()).Draw(t, "addr"),
			Bytes: rapid.OneOf(rapid.Just(uint64(4096)), rapid.Uint64()).Draw(t, "bytes"),
			Time:  rapid.OneOf(small, rapid.Uint64()).Draw(t, "time"),
			Array: rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "array"),
			GPU:   rapid.Uint16Range(0, 3).Draw(t, "gpu"),
			Op:    Op(rapid.IntRange(0, 2).Draw(t, "op")),
			Flags: uint8(rapid.IntRange(0, int(knownFlags)).Draw(t, "flags")),
		}
	})
	recs := rapid.SliceOfN(one, 1, 300).Draw(t, "records")
	// Long runs of equal and of evenly spaced records meet the repeat tokens,
	// and more than one block.
	if n := rapid.IntRange(0, 3).Draw(t, "stretch"); n > 0 {
		last := recs[len(recs)-1]
		for range n * 20_000 {
			last.Addr += uint64(n)
			last.Time += 10
			recs = append(recs, last)
		}
	}
	return recs
}

func TestNativeRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		recs := drawRecords(rt)
		h := Header{PageSize: rapid.Uint64().Draw(rt, "page"), Source: rapid.StringN(0, 50, -1).Draw(rt, "source"),
			Generator: "test", Order: Merged, Writes: rapid.Bool().Draw(rt, "writes"), Prompts: true}
		data := writeNative(t, h, recs, rapid.IntRange(1, 40_000).Draw(rt, "piece"))
		got, err := readBytes(t, data, Options{}, rapid.IntRange(1, 5000).Draw(rt, "batch"))
		if err != io.EOF || !slices.Equal(got, recs) {
			rt.Fatalf("stream: %d records of %d, %v: %s", len(got), len(recs), err, cmp.Diff(recs[:min(len(recs), 3)], got[:min(len(got), 3)]))
		}
		n, err := OpenNative(bytes.NewReader(data), int64(len(data)), "mem")
		if err != nil {
			rt.Fatal(err)
		}
		if n.Header() != h || n.Records() != int64(len(recs)) {
			rt.Fatalf("header %+v, %d records", n.Header(), n.Records())
		}
		at := rapid.IntRange(0, len(recs)).Draw(rt, "at")
		if err := n.SeekRecord(int64(at)); err != nil {
			rt.Fatal(err)
		}
		if got, err := readAll(t, n, 777); err != io.EOF || len(got) != len(recs)-at || len(got) > 0 && !slices.Equal(got, recs[at:]) {
			rt.Fatalf("after seeking to %d: %d records, %v", at, len(got), err)
		}
		if err := n.SeekRecord(int64(len(recs)) + 1); err == nil {
			rt.Fatal("sought beyond the end")
		}
	})
}

// TestNativeSize keeps the promise of FORMAT.md.
func TestNativeSize(t *testing.T) {
	r, err := Open("testdata/arc_OLTP.lis.zst", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	recs, err := readAll(t, r, 4096)
	if err != io.EOF {
		t.Fatal(err)
	}
	data := writeNative(t, Header{PageAddressed: true}, recs, 10_000)
	per := float64(len(data)) / float64(len(recs))
	t.Logf("OLTP: %d bytes, %.2f a record", len(data), per)
	if per > 3 {
		t.Errorf("%.2f bytes a record, want at most 3", per)
	}
	if got, err := readBytes(t, data, Options{}, 1000); err != io.EOF || !slices.Equal(got, recs) {
		t.Error("read back differs", err)
	}
}

// smallBlock keeps damaged traces small.
const smallBlock = 600

// manyBlocks is a trace of a few blocks and what it holds.
func manyBlocks(t testing.TB) (data []byte, recs []Record) {
	recs = make([]Record, 3*smallBlock/2)
	for i := range recs {
		recs[i] = Record{Addr: uint64(i*i) % 9973, Time: uint64(i) * 77, Flags: PageAddressed, Op: Op(i % 2)}
	}
	var b bytes.Buffer
	w := NewWriter(&b, Header{Source: "blocks"})
	w.block = smallBlock
	if err := w.Write(recs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), recs
}

// TestNativeDamage cuts a file at, and flips a bit in, many places: whatever the
// place, both readers must say so, and must not deliver a wrong record.
func TestNativeDamage(t *testing.T) {
	data, recs := manyBlocks(t)
	check := func(name string, bad []byte) {
		got, err := readBytes(t, bad, Options{Format: "native"}, 4096)
		if err == nil || err == io.EOF {
			t.Errorf("%s: no error from the stream", name)
		}
		if len(got) > len(recs) || len(got) > 0 && !slices.Equal(got, recs[:len(got)]) {
			t.Errorf("%s: wrong records before %v", name, err)
		}
		n, err := OpenNative(bytes.NewReader(bad), int64(len(bad)), "mem")
		if err != nil {
			var te *Error
			if !errors.As(err, &te) {
				t.Errorf("%s: %T", name, err)
			}
			return
		}
		if _, err := readAll(t, n, 4096); err == io.EOF {
			t.Errorf("%s: no error from the seekable reader", name)
		}
	}
	step := max(len(data)/400, 1)
	for at := 0; at < len(data); at++ {
		if at%step != 0 && at > 60 && at < len(data)-100 {
			continue
		}
		check("cut", data[:at])
		flipped := bytes.Clone(data)
		flipped[at] ^= 1 << (at % 8)
		check("flip", flipped)
	}
	check("tail", append(bytes.Clone(data), 0))
	// The second block in the first one's place: each is intact on its own.
	n, err := OpenNative(bytes.NewReader(data), int64(len(data)), "mem")
	if err != nil {
		t.Fatal(err)
	}
	a, b := n.index[0].offset, n.index[1].offset
	check("missing block", append(bytes.Clone(data[:a]), data[b:]...))
}

// TestNativeErrors checks that errors name block and offset.
func TestNativeErrors(t *testing.T) {
	data, _ := manyBlocks(t)
	n, err := OpenNative(bytes.NewReader(data), int64(len(data)), "mem")
	if err != nil {
		t.Fatal(err)
	}
	second := n.index[1].offset
	bad := bytes.Clone(data)
	bad[second+100] ^= 1
	_, err = readBytes(t, bad, Options{}, 4096)
	var te *Error
	if !errors.As(err, &te) || te.Offset != int64(second) || !strings.Contains(te.What, "block 2: ") {
		t.Errorf("stream: %v, want block 2 at offset %d", err, second)
	}
	n, err = OpenNative(bytes.NewReader(bad), int64(len(bad)), "mem")
	if err != nil {
		t.Fatal(err)
	}
	_, err = readAll(t, n, 4096)
	if !errors.As(err, &te) || te.Offset != int64(second) || !strings.Contains(te.What, "block 2: ") {
		t.Errorf("seekable: %v, want block 2 at offset %d", err, second)
	}
	_, err = readBytes(t, data[:second+50], Options{}, 4096)
	if !errors.As(err, &te) || te.Offset != int64(second) || !strings.Contains(te.What, "block 2") {
		t.Errorf("cut: %v, want block 2 at offset %d", err, second)
	}
}

// TestNativeCounts: a footer or an index that is intact and wrong.
func TestNativeCounts(t *testing.T) {
	data, recs := manyBlocks(t)
	body := data[:len(data)-footerSize]
	ft, err := parseFooter(data[len(data)-footerSize:])
	if err != nil || ft.records != uint64(len(recs)) || ft.blocks != 2 {
		t.Fatal(ft, err)
	}
	for _, wrong := range []footer{{ft.index, ft.records + 1, ft.blocks}, {ft.index, ft.records, 1}, {ft.index - 1, ft.records, ft.blocks}, {1 << 60, ft.records, ft.blocks}} {
		bad := wrong.append(bytes.Clone(body))
		if _, err := readBytes(t, bad, Options{}, 4096); err == io.EOF {
			t.Errorf("the stream accepts footer %+v", wrong)
		}
		n, err := OpenNative(bytes.NewReader(bad), int64(len(bad)), "mem")
		if err == nil {
			_, err = readAll(t, n, 4096)
		}
		if err == io.EOF {
			t.Errorf("the seekable reader accepts footer %+v", wrong)
		}
	}
	bad := bytes.Clone(data)
	index := bad[ft.index : len(bad)-footerSize]
	index[indexHeader+indexEntry]++ // the second block's offset
	binary.LittleEndian.PutUint64(index[8:], indexSum(index))
	if _, err := readBytes(t, bad, Options{}, 4096); err == io.EOF || !strings.Contains(err.Error(), "index is wrong about block 2") {
		t.Errorf("wrong index: %v", err)
	}
	n, err := OpenNative(bytes.NewReader(bad), int64(len(bad)), "mem")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.SeekRecord(smallBlock + 1); err == nil {
		t.Error("sought by a wrong index")
	}
}

// TestWriterRefuses checks what a Writer does not write.
func TestWriterRefuses(t *testing.T) {
	page := Record{Flags: PageAddressed}
	for name, c := range map[string]struct {
		h    Header
		recs []Record
	}{
		"no records":    {Header{}, nil},
		"op":            {Header{}, []Record{{Op: 3}}},
		"flags":         {Header{}, []Record{{Flags: 0x80}}},
		"byte range":    {Header{PageAddressed: true}, []Record{page, {Addr: 1, Bytes: 1}}},
		"long text":     {Header{Source: strings.Repeat("x", maxText)}, []Record{page}},
		"failing write": {Header{Generator: "fail"}, []Record{page}},
	} {
		w := NewWriter(failing(c.h.Generator == "fail"), c.h)
		werr := w.Write(c.recs)
		if cerr := w.Close(); cerr == nil || werr != nil && cerr != werr {
			t.Errorf("%s: Write said %v, Close said %v", name, werr, cerr)
		}
		if err := w.Write([]Record{page}); err == nil {
			t.Errorf("%s: a write after Close", name)
		}
	}
}

// failing is a writer that fails, or discards.
type failing bool

func (f failing) Write(p []byte) (int, error) {
	if f {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}
