package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
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
	pageSize uint64 // of the pages; 0 when there is none
	header   trace.Header
	next     []int64 // for each access, the index of the next one to its page; oracleGeneral only
}

// encodings are the formats that are written.
var encodings = []encoding{
	{name: "native", extensions: []string{".ttrc"}, binary: true, open: openNative},
	{name: "csv", extensions: []string{".csv"}, pages: true, open: openCSV},
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

func encodingNames() []string {
	names := make([]string, len(encodings))
	for i, e := range encodings {
		names[i] = e.name
	}
	return names
}
