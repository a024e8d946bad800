package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/tritier/tritier/sim/trace"
)

// flatBits is where the array number goes when a format has one number for a
// page and its array.
const flatBits = 48

// flat is the number of a page for formats without arrays.
func flat(r *trace.Record) (uint64, error) {
	if r.Array == 0 {
		return r.Addr, nil
	}
	if r.Addr>>flatBits != 0 || r.Array>>(64-flatBits) != 0 {
		return 0, fmt.Errorf("array %d, page %d: too large for one number of 64 bits; choose a format that has arrays", r.Array, r.Addr)
	}
	return uint64(r.Array)<<flatBits | r.Addr, nil
}

// idsEncoder writes a decimal page number a line, with W or P after it unless
// it is read.
type idsEncoder struct {
	w    io.Writer
	line []byte
}

func openIDs(w io.Writer, _ source) (encoder, error) { return &idsEncoder{w: w}, nil }

func (e *idsEncoder) encode(recs []trace.Record) error {
	e.line = e.line[:0]
	for i := range recs {
		r := &recs[i]
		page, err := flat(r)
		if err != nil {
			return err
		}
		e.line = strconv.AppendUint(e.line, page, 10)
		if r.Op != trace.Read {
			e.line = append(append(e.line, ' '), r.Op.String()...)
		}
		e.line = append(e.line, '\n')
	}
	_, err := e.w.Write(e.line)
	return err
}

func (e *idsEncoder) finish() error { return nil }

// csvEncoder writes page accesses with a header line: time in ns if the source
// has times, array, page, operation, GPU, and the number of the request if the
// source has requests.
type csvEncoder struct {
	w               io.Writer
	times, requests bool
	request         uint64
	line            []byte
}

func openCSV(w io.Writer, about source) (encoder, error) {
	e := &csvEncoder{w: w, times: about.header.Times, requests: about.header.Requests}
	header := "array,page,op,gpu"
	if e.times {
		header = "time_ns," + header
	}
	if e.requests {
		header += ",request"
	}
	_, err := io.WriteString(w, header+"\n")
	return e, err
}

func (e *csvEncoder) encode(recs []trace.Record) error {
	b := e.line[:0]
	for i := range recs {
		r := &recs[i]
		if e.times {
			b = append(strconv.AppendUint(b, r.Time, 10), ',')
		}
		b = append(strconv.AppendUint(b, uint64(r.Array), 10), ',')
		b = append(strconv.AppendUint(b, r.Addr, 10), ',')
		b = append(append(b, r.Op.String()...), ',')
		b = strconv.AppendUint(b, uint64(r.GPU), 10)
		if e.requests {
			if r.Flags&trace.RequestStart != 0 {
				e.request++
			}
			b = strconv.AppendUint(append(b, ','), e.request, 10)
		}
		b = append(b, '\n')
	}
	e.line = b
	_, err := e.w.Write(b)
	return err
}

func (e *csvEncoder) finish() error { return nil }

// nativeEncoder writes the own format.
type nativeEncoder struct{ w *trace.Writer }

func openNative(w io.Writer, about source) (encoder, error) {
	return nativeEncoder{trace.NewWriter(w, about.header)}, nil
}

func (e nativeEncoder) encode(recs []trace.Record) error { return e.w.Write(recs) }
func (e nativeEncoder) finish() error                    { return e.w.Close() }
