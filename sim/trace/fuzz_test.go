package trace

import (
	"bytes"
	"io"
	"slices"
	"testing"
)

// fuzzReader feeds arbitrary bytes to one format's reader. It must not panic
// (the fuzzer sees to that), must end, and readAll checks that any error is an
// *Error and stays; in the text the number of records is bounded by the input,
// and batches must not change what is read.
func fuzzReader(f *testing.F, format string, seeds ...[]byte) {
	for _, c := range good {
		if c.format == format {
			f.Add([]byte(c.in))
		}
	}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Options{Format: format, Limit: 1 << 16}
		a, aerr := readBytes(t, data, o, 4096)
		b, berr := readBytes(t, data, o, 3)
		if !slices.Equal(a, b) || (aerr == io.EOF) != (berr == io.EOF) {
			t.Fatalf("batches of 4096: %d records, %v; of 3: %d, %v", len(a), aerr, len(b), berr)
		}
		for _, r := range a {
			if r.Flags&PageAddressed == 0 && checkRange(r.Addr, r.Bytes) != "" || r.Op > Prefetch || r.Flags&^knownFlags != 0 {
				t.Fatalf("a record that no reader may make: %+v", r)
			}
		}
	})
}

func FuzzMooncake(f *testing.F)      { fuzzReader(f, "mooncake") }
func FuzzLMCache(f *testing.F)       { fuzzReader(f, "lmcache") }
func FuzzOracleGeneral(f *testing.F) { fuzzReader(f, "oracleGeneral") }
func FuzzIDs(f *testing.F)           { fuzzReader(f, "ids") }
func FuzzIDsHex(f *testing.F)        { fuzzReader(f, "ids-hex") }
func FuzzLirs(f *testing.F)          { fuzzReader(f, "lirs") }
func FuzzLis(f *testing.F)           { fuzzReader(f, "lis") }
func FuzzMQSim(f *testing.F)         { fuzzReader(f, "mqsim") }
func FuzzVSCSI(f *testing.F)         { fuzzReader(f, "vscsi") }
func FuzzCSV(f *testing.F)           { fuzzReader(f, "csv") }
func FuzzLackey(f *testing.F)        { fuzzReader(f, "lackey") }
func FuzzNVBit(f *testing.F)         { fuzzReader(f, "nvbit") }

func FuzzSessions(f *testing.F) {
	fuzzReader(f, "kv-cache-tester", sessionTar(f, map[string]string{"a.json": `{"requests":[{"t":0,"hash_ids":[1]}]}`}))
}

func FuzzNative(f *testing.F) {
	recs := []Record{{Addr: 1, Flags: pa}, {Addr: 1 << 63, Bytes: 3, Time: 9, GPU: 1, Array: 7, Op: Write}}
	data := writeNative(f, Header{Source: "s"}, recs, 1)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := readBytes(t, data, Options{Format: "native", Limit: 1 << 16}, 4096)
		n, oerr := OpenNative(bytes.NewReader(data), int64(len(data)), "mem")
		if oerr != nil {
			if err == io.EOF {
				t.Fatalf("the stream reader accepts what OpenNative refuses: %v", oerr)
			}
			return
		}
		if _, serr := readAll(t, n, 100); err == io.EOF && serr != io.EOF {
			t.Fatalf("stream reader: %v, seekable reader: %v", err, serr)
		}
	})
}

// FuzzColumns gets past the checksums of blocks, to the columns' decoder.
func FuzzColumns(f *testing.F) {
	f.Add([]byte("\x02\x04\x05\x02\x02\x05\x01\x00\x01\x00\x01\x00\x01\x00"), uint16(3))
	f.Add([]byte("\x02\x04\x05\x02\x01\x02\x00\x00\x00\x00"), uint16(0)) // a big value that is cut off
	f.Add([]byte("\x02\x04\x05\x02\x02\xff\x01\x00\x01\x00"), uint16(2)) // too few values
	f.Fuzz(func(t *testing.T, data []byte, records uint16) {
		var br blockReader
		if br.open(blockInfo{records: int(records) + 1, raw: len(data)}, data) != "" {
			return
		}
		recs := make([]Record, 100)
		for br.left > 0 {
			before := br.left
			if n, what := br.next(recs); what != "" {
				return
			} else if n == 0 || br.left != before-n {
				t.Fatalf("%d records, %d left of %d", n, br.left, before)
			}
		}
	})
}

// FuzzDetect lets detection choose.
func FuzzDetect(f *testing.F) {
	for _, c := range good {
		f.Add([]byte(c.in))
	}
	for name := range packers {
		f.Add(pack(f, name, []byte("1\n2\n")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readBytes(t, data, Options{Limit: 1 << 16}, 1000)
	})
}
