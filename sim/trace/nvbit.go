package trace

import "bytes"

const warpLanes = 32

// nvbitDecoder reads the text that NVBit's mem_trace tool prints: one line for
// each memory instruction of a warp, among the output of the traced program,
// which is skipped. Each active lane is a record, all of one line one group.
// Accesses to shared and local memory are dropped: they are not in pages.
type nvbitDecoder struct {
	line     int64
	lanes    [warpLanes]Record // records of the current line
	i, n     int               // those still to be given out
	launch   uint64            // grid launch of the line before
	launched bool
	start    bool // the next record starts a launch
}

var nvbitMark = []byte("grid_launch_id ")

// decode implements decoder.
func (d *nvbitDecoder) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		if d.i < d.n {
			k := copy(recs[n:], d.lanes[d.i:d.n])
			d.i, n = d.i+k, n+k
			continue
		}
		line, size := cutLine(buf[used:], last)
		if size == 0 {
			break
		}
		d.line++
		if bytes.Contains(line, nvbitMark) {
			if what := d.parse(line); what != "" {
				return n, used, &fault{line: d.line, what: what}
			}
		}
		used += size
	}
	return n, used, nil
}

// parse reads a line such as
//
//	MEMTRACE: CTX 0x55d0 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - 0x7f00 0x0 ...
func (d *nvbitDecoder) parse(line []byte) (what string) {
	d.i, d.n = 0, 0
	f := bytes.Split(line, []byte(" - "))
	if len(f) < 4 {
		return "cut off: no opcode or addresses: " + clip(line)
	}
	if what = d.context(f[:len(f)-2]); what != "" {
		return what
	}
	opcode := bytes.TrimSpace(f[len(f)-2])
	var addrs [warpLanes + 1][]byte
	lanes := splitFields(f[len(f)-1], addrs[:])
	if len(opcode) == 0 || opcode[0] < 'A' || opcode[0] > 'Z' || lanes == 0 || lanes > warpLanes {
		return "needs an opcode and 1 to 32 addresses: " + clip(line)
	}
	tmpl, global := nvbitOpcode(opcode)
	for _, tok := range addrs[:lanes] {
		addr, ok := parse0x(tok)
		if !ok {
			return "address " + clip(tok) + " is not 0x and hexadecimal digits"
		}
		if what = checkRange(addr, tmpl.Bytes); what != "" {
			return what
		}
		if addr == 0 || !global { // an inactive lane
			continue
		}
		r := tmpl
		r.Addr = addr
		if d.n > 0 {
			r.Flags |= SameGroup
		} else if d.start {
			r.Flags |= RequestStart
			d.start = false
		}
		d.lanes[d.n] = r
		d.n++
	}
	return ""
}

// context checks the fields before the opcode and notes a new launch.
func (d *nvbitDecoder) context(fields [][]byte) (what string) {
	seen := false
	for _, f := range fields {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(f), nvbitMark)
		if !ok {
			continue
		}
		id, n, ok := parseDec(rest)
		if !ok || n != len(rest) {
			return "grid_launch_id " + clip(rest) + " is not a number"
		}
		if !d.launched || id != d.launch {
			d.launched, d.launch, d.start = true, id, true
		}
		seen = true
	}
	if !seen || !bytes.Contains(fields[0], []byte("CTX 0x")) {
		return "not a mem_trace line, or cut off"
	}
	return ""
}

// nvbitOpcode is the record of one lane of a SASS opcode such as LDG.E.64; it
// reports false when the instruction does not access global memory.
func nvbitOpcode(opcode []byte) (r Record, global bool) {
	parts := bytes.Split(opcode, []byte("."))
	r.Bytes = 4
	for _, p := range parts[1:] {
		switch string(p) {
		case "U8", "S8", "8":
			r.Bytes = 1
		case "U16", "S16", "16":
			r.Bytes = 2
		case "64":
			r.Bytes = 8
		case "128":
			r.Bytes = 16
		}
	}
	name := string(parts[0])
	switch {
	case hasAny(name, "LDS", "STS", "ATOMS", "LDL", "STL"):
		return r, false
	case hasAny(name, "ATOM", "RED"):
		r.Op, r.Flags = Write, Update
	case hasAny(name, "ST"):
		r.Op = Write
	case hasAny(name, "CCTL"):
		r.Op = Prefetch
	}
	return r, true
}

func hasAny(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if len(s) >= len(p) && s[:len(p)] == p {
			return true
		}
	}
	return false
}

// parse0x reads 0x and hexadecimal digits.
func parse0x(tok []byte) (uint64, bool) {
	if len(tok) < 3 || tok[0] != '0' || tok[1]|0x20 != 'x' {
		return 0, false
	}
	return parseHex(tok[2:])
}

// probeNVBit accepts a head with a line of mem_trace among any others.
func probeNVBit(h *head) verdict {
	rest := h.buf
	for len(rest) > 0 {
		line, size := cutLine(rest, h.complete)
		if size == 0 {
			break
		}
		if bytes.Contains(line, nvbitMark) && bytes.Contains(line, []byte("CTX 0x")) {
			return sure
		}
		rest = rest[size:]
	}
	return no
}
