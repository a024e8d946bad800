package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tritier/tritier/sim/trace"
)

// encoder writes records in one format.
type encoder interface {
	// encode writes records; a nil error means that all of them were taken.
	encode(recs []trace.Record) error
	// finish writes what belongs at the end.
	finish() error
}

// encoding is an output format.
type encoding struct {
	name       string
	extensions []string // without compression; the first is the customary one
	pages      bool     // holds pages only: byte ranges are split first
	next       bool     // holds the next access to each page: the input is read twice
	binary     bool     // not for a terminal
	open       func(w io.Writer, about source) (encoder, error)
}

// source describes what is encoded.
type source struct {
	pageSize uint64  // of the pages; 0 when there is none
	name     string  // where the records come from
	next     []int64 // for each access, the index of the next one to its page; oracleGeneral only
}

// encodings are the formats that are written.
var encodings = []encoding{
	{name: "ids", extensions: []string{".ids", ".txt"}, pages: true, open: openIDs},
	{name: "oracleGeneral", extensions: []string{".oraclegeneral", ".bin"}, pages: true, next: true, binary: true, open: openOracle},
}

// chooseEncoding picks the format by name or, when that is empty, by the
// extension of path; fallback is for a path without a known one.
func chooseEncoding(name, path, fallback string) (encoding, error) {
	var names []string
	base := strings.ToLower(filepath.Base(path))
	if slices.Contains(compressions, filepath.Ext(base)) {
		base = strings.TrimSuffix(base, filepath.Ext(base))
	}
	for _, e := range encodings {
		if name != "" && strings.EqualFold(e.name, name) || name == "" && slices.Contains(e.extensions, filepath.Ext(base)) {
			return e, nil
		}
		names = append(names, e.name)
	}
	switch {
	case name != "":
		return encoding{}, fmt.Errorf("unknown output format %q; valid are %s", name, strings.Join(names, ", "))
	case fallback != "":
		return chooseEncoding(fallback, "", "")
	}
	return encoding{}, fmt.Errorf("%s: the extension names no output format; give --to: %s", path, strings.Join(names, ", "))
}

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

func encodingNames() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.name
	}
	return names
}
