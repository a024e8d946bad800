package workload

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/tritier/tritier/sim/trace"
)

// records runs a workload to its end.
func records(t testing.TB, text string) []trace.Record {
	t.Helper()
	var all []trace.Record
	each(t, text, func(r trace.Record) { all = append(all, r) })
	return all
}

// each calls f for every record of a workload.
func each(t testing.TB, text string, f func(trace.Record)) {
	t.Helper()
	r := open(t, text)
	batch := make([]trace.Record, 1000)
	for {
		n, err := r.Next(batch)
		if errors.Is(err, io.EOF) && n == 0 {
			return
		}
		if err != nil || n == 0 {
			t.Fatalf("%s: Next = %d, %v", text, n, err)
		}
		for _, rec := range batch[:n] {
			f(rec)
		}
	}
}

func open(t testing.TB, text string) trace.Reader {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// checksum digests every field of a stream.
func checksum(t testing.TB, text string) uint64 {
	t.Helper()
	d := xxhash.New()
	each(t, text, func(r trace.Record) {
		b := binary.LittleEndian.AppendUint64(nil, r.Addr)
		b = binary.LittleEndian.AppendUint64(b, r.Bytes)
		b = binary.LittleEndian.AppendUint64(b, r.Time)
		b = binary.LittleEndian.AppendUint32(b, r.Array)
		b = binary.LittleEndian.AppendUint16(b, r.GPU)
		_, _ = d.Write(append(b, byte(r.Op), r.Flags)) // a hash never fails
	})
	return d.Sum64()
}
