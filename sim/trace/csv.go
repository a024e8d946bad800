package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// column is what a csv column means.
type column uint8

const (
	colIgnored column = iota
	colTimeS
	colTimeMS
	colTimeUS
	colTimeNS
	colPage    // page or object number
	colKey     // object name, any text: hashed to 64 bits
	colOffset  // byte address
	colLBA     // address in sectors of 512 bytes
	colSize    // bytes
	colSectors // length in sectors of 512 bytes
	colOp
	colArray
	colGPU
	colRequest // a new value starts a request
)

// columnNames are the names of columns, in lower case.
var columnNames = map[string]column{
	"time": colTimeS, "timestamp": colTimeS, "ts": colTimeS, "time_s": colTimeS, "clock_time": colTimeS, "timestamp_s": colTimeS,
	"time_ms": colTimeMS, "timestamp_ms": colTimeMS, "ts_ms": colTimeMS,
	"time_us": colTimeUS, "timestamp_us": colTimeUS, "ts_us": colTimeUS,
	"time_ns": colTimeNS, "timestamp_ns": colTimeNS, "ts_ns": colTimeNS,
	"id": colPage, "page": colPage, "obj_id": colPage, "object_id": colPage, "object": colPage, "block": colPage,
	"block_id": colPage, "page_id": colPage, "vertex": colPage,
	"key": colKey, "name": colKey, "url": colKey, "obj_key": colKey,
	"offset": colOffset, "addr": colOffset, "address": colOffset, "byte_offset": colOffset,
	"lba": colLBA, "lbn": colLBA, "sector": colLBA,
	"size": colSize, "bytes": colSize, "length": colSize, "len": colSize, "obj_size": colSize, "object_size": colSize,
	"sectors": colSectors, "num_sectors": colSectors,
	"op": colOp, "operation": colOp, "type": colOp, "rw": colOp, "cmd": colOp,
	"array": colArray, "array_id": colArray, "device": colArray, "dev": colArray, "disk": colArray, "file": colArray, "volume": colArray,
	"gpu": colGPU, "gpu_id": colGPU,
	"request": colRequest, "request_id": colRequest, "req": colRequest,
}

const (
	csvDelimiters = ",;\t|"
	maxCSVColumns = 256
)

// csvLayout says where a line's values are.
type csvLayout struct {
	delim byte
	cols  []column
	named bool // by the caller, not by a header line
}

// nameColumns turns names into columns; "-" and names that are not known mean
// columns to ignore, unless strict.
func nameColumns(names []string, strict bool) (cols []column, what string) {
	if len(names) > maxCSVColumns {
		return nil, fmt.Sprintf("%d columns are more than the limit of %d", len(names), maxCSVColumns)
	}
	var seen [colRequest + 1]string
	for _, name := range names {
		key := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
		c, ok := columnNames[key]
		if !ok && strict && name != "-" {
			return nil, fmt.Sprintf("unknown column %q; columns are time, time_ms, time_us, time_ns, page, key, offset, lba, size, sectors, op, array, gpu, request and - to ignore one", name)
		}
		if ok && seen[c] != "" {
			return nil, fmt.Sprintf("columns %q and %q mean the same", seen[c], name)
		}
		seen[c] = name
		cols = append(cols, c)
	}
	return cols, checkColumns(cols)
}

// checkColumns says which columns are missing or exclude each other, or "".
func checkColumns(cols []column) string {
	n := func(set ...column) (n int) {
		for _, c := range cols {
			if slices.Contains(set, c) {
				n++
			}
		}
		return n
	}
	switch {
	case n(colPage, colKey, colOffset, colLBA) != 1:
		return "one column must say which page: page (or id), key, offset or lba"
	case n(colTimeS, colTimeMS, colTimeUS, colTimeNS) > 1:
		return "two columns are times"
	case n(colSize, colSectors) > 1:
		return "two columns are sizes"
	}
	return ""
}

// csvHeader reads a header line: the delimiter is the one that makes names of
// known columns.
func csvHeader(line []byte) (l csvLayout, what string) {
	what = "the file has no header line that names its columns; name them with --csv-columns"
	for _, delim := range []byte(csvDelimiters) {
		fields, ok := csvSplit(line, delim, nil)
		if !ok || len(fields) < 2 {
			continue
		}
		names := make([]string, len(fields))
		known := false
		for i, f := range fields {
			names[i] = string(f)
			known = known || columnNames[strings.ToLower(strings.TrimSpace(names[i]))] != colIgnored
		}
		cols, bad := nameColumns(names, false)
		if bad == "" {
			return csvLayout{delim: delim, cols: cols}, ""
		}
		if known {
			what = "the header line: " + bad
		}
	}
	return l, what
}

// csvSplit cuts a line into fields, which may be quoted as in RFC 4180 but not
// span lines.
func csvSplit(line []byte, delim byte, fields [][]byte) ([][]byte, bool) {
	for {
		var f []byte
		t := line
		if len(t) > 0 && t[0] == ' ' {
			t = bytes.TrimLeft(t, " ")
		}
		if len(t) > 0 && t[0] == '"' {
			var ok bool
			if f, line, ok = csvQuoted(t[1:]); !ok {
				return fields, false
			}
			line = bytes.TrimLeft(line, " ")
			if len(line) > 0 && line[0] != delim {
				return fields, false
			}
		} else if k := bytes.IndexByte(line, delim); k >= 0 {
			f, line = line[:k], line[k:]
		} else {
			f, line = line, nil
		}
		if len(fields) == maxCSVColumns {
			return fields, false
		}
		fields = append(fields, f)
		if len(line) == 0 {
			return fields, true
		}
		line = line[1:]
	}
}

// csvQuoted reads a quoted field after its first quote; "" is one quote.
func csvQuoted(b []byte) (field, rest []byte, ok bool) {
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		if i+1 == len(b) || b[i+1] != '"' {
			return bytes.ReplaceAll(b[:i], []byte(`""`), []byte(`"`)), b[i+1:], true
		}
		i++
	}
	return nil, nil, false
}

// csvParser parses the lines after the header.
type csvParser struct {
	csvLayout
	fields  [][]byte
	first   bool // the header is still to come
	request uint64
	begun   bool // a request was seen
}

// parse reads one line.
func (p *csvParser) parse(line []byte, r *Record) (ok bool, what string) {
	if len(bytes.TrimSpace(line)) == 0 {
		return false, ""
	}
	if p.fields, ok = csvSplit(line, p.delim, p.fields[:0]); !ok {
		return false, "a quoted field does not end, or the line has more than 256 fields"
	}
	if len(p.fields) != len(p.cols) {
		return false, fmt.Sprintf("%d fields, but there are %d columns", len(p.fields), len(p.cols))
	}
	if p.first {
		p.first = false
		if !p.named || p.isHeader() {
			return false, ""
		}
	}
	*r = Record{}
	for i, c := range p.cols {
		if c == colIgnored {
			continue
		}
		if what = p.set(r, c, bytes.TrimSpace(p.fields[i])); what != "" {
			return false, what
		}
	}
	if r.Flags&PageAddressed == 0 {
		what = checkRange(r.Addr, r.Bytes)
	}
	return true, what
}

// isHeader tells whether the first line is a header although the caller named
// the columns: every one of them that must be a number has no digit.
func (p *csvParser) isHeader() bool {
	numbers := 0
	for i, c := range p.cols {
		if c == colIgnored || c == colKey || c == colOp || c == colRequest {
			continue
		}
		numbers++
		if bytes.ContainsAny(p.fields[i], "0123456789") {
			return false
		}
	}
	return numbers > 0
}

// set stores one value; it says what is wrong with it, or "".
func (p *csvParser) set(r *Record, c column, tok []byte) string {
	ok := true
	switch c {
	case colTimeS, colTimeMS, colTimeUS, colTimeNS:
		units := [...]uint64{colTimeS: 1e9, colTimeMS: 1e6, colTimeUS: 1e3, colTimeNS: 1}
		if r.Time, ok = parseScaled(tok, units[c]); !ok {
			return "time " + clip(tok) + " is not a number, negative or out of range"
		}
	case colKey:
		r.Addr, r.Flags = xxhash.Sum64(tok), r.Flags|PageAddressed
	case colOp:
		if r.Op, ok = parseOp(tok); !ok {
			return "the operation must be R, W or P (or read, write, prefetch), not " + clip(tok)
		}
	case colRequest:
		if id := xxhash.Sum64(tok); !p.begun || id != p.request {
			p.begun, p.request = true, id
			r.Flags |= RequestStart
		}
	default:
		return setNumber(r, c, tok)
	}
	return ""
}

// setNumber stores an integer.
func setNumber(r *Record, c column, tok []byte) string {
	limit := ^uint64(0)
	switch c {
	case colLBA, colSectors:
		limit = 1<<55 - 1
	case colArray:
		limit = 1<<32 - 1
	case colGPU:
		limit = 1<<16 - 1
	}
	v, ok := parseInt(tok)
	if !ok || v > limit {
		return fmt.Sprintf("%s is not an integer from 0 to %d", clip(tok), limit)
	}
	switch c {
	case colPage:
		r.Addr, r.Flags = v, r.Flags|PageAddressed
	case colOffset:
		r.Addr = v
	case colLBA:
		r.Addr = v * sectorSize
	case colSize:
		r.Bytes = v
	case colSectors:
		r.Bytes = v * sectorSize
	case colArray:
		r.Array = uint32(v)
	case colGPU:
		r.GPU = uint16(v)
	}
	return ""
}

// parseInt reads all of tok: decimal, or hexadecimal after 0x.
func parseInt(tok []byte) (uint64, bool) {
	if v, ok := parse0x(tok); ok {
		return v, true
	}
	v, n, ok := parseDec(tok)
	return v, ok && n == len(tok)
}

// probeCSV accepts a header line of known names, or names given by the caller.
// Without them, lines of equally many delimited fields may be csv.
func probeCSV(h *head) verdict {
	line := h.firstLine()
	if len(h.columns) > 0 {
		return sure
	}
	if _, what := csvHeader(line); what == "" {
		return sure
	}
	if bytes.IndexByte(h.buf, 0) >= 0 { // binary
		return no
	}
	for _, delim := range []byte(csvDelimiters) {
		want := bytes.Count(line, []byte{delim})
		if want > 0 && line[0] != '{' && h.everyLine(func(l []byte) bool { return bytes.Count(l, []byte{delim}) == want }) == sure {
			return maybe
		}
	}
	return no
}

// openCSV finds the layout and makes the reader.
func openCSV(in *input, info Info, h *head, o *Options) (Reader, *Error) {
	line := h.firstLine()
	var l csvLayout
	var what string
	if len(o.Columns) > 0 {
		l.named = true
		l.cols, what = nameColumns(o.Columns, true)
		l.delim = ','
		for _, delim := range []byte(csvDelimiters) {
			if f, ok := csvSplit(line, delim, nil); ok && len(f) == len(l.cols) {
				l.delim = delim
				break
			}
		}
	} else {
		l, what = csvHeader(line)
	}
	if what != "" {
		return nil, &Error{Path: in.path, Format: info.Format, Line: 1, What: what}
	}
	has := func(c ...column) bool {
		return slices.ContainsFunc(l.cols, func(x column) bool { return slices.Contains(c, x) })
	}
	info.PageAddressed = has(colPage, colKey)
	info.Writes, info.Requests = has(colOp), has(colRequest)
	info.Times = has(colTimeS, colTimeMS, colTimeUS, colTimeNS)
	p := &csvParser{csvLayout: l, first: true}
	return &windowReader{in: in, dec: &lineDecoder{parse: p.parse}, info: info}, nil
}
