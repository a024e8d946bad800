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
	shape    nvbitShape
	lines    int64 // of mem_trace
}

// nvbitShape is what the address lists of all lines so far have in common: the
// tool pads addresses to one width and prints every lane, active or not. A list
// at the file's end that has less is cut off, though it may look whole.
type nvbitShape struct {
	width int // bytes of an address; 0 when they differ
	lanes int // addresses; 0 when they differ
}

// shapeOf is the shape of one list.
func shapeOf(addrs [][]byte) nvbitShape {
	s := nvbitShape{lanes: len(addrs)}
	for i, a := range addrs {
		if i == 0 {
			s.width = len(a)
		} else if len(a) != s.width {
			s.width = 0
			break
		}
	}
	return s
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
			whole := buf[used+size-1] == '\n'
			if what := d.parse(line, whole); what != "" {
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
//
// which is whole if its end was seen.
func (d *nvbitDecoder) parse(line []byte, whole bool) (what string) {
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
	if what = d.compare(addrs[:lanes], whole); what != "" {
		return what
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

// compare notes the shape of a list of addresses; one that is not whole must
// have the shape of the lists before, and its last address the width of the others.
func (d *nvbitDecoder) compare(addrs [][]byte, whole bool) (what string) {
	s := shapeOf(addrs)
	if !whole {
		width, last := d.shape.width, len(addrs)-1
		if d.lines == 0 {
			width = shapeOf(addrs[:last]).width
		}
		if width > 0 && len(addrs[last]) < width || d.shape.lanes > s.lanes {
			return "the file is cut off in the line's addresses, at " + clip(addrs[last])
		}
		return ""
	}
	if d.lines++; d.lines == 1 {
		d.shape = s
		return ""
	}
	if s.width != d.shape.width {
		d.shape.width = 0
	}
	if s.lanes != d.shape.lanes {
		d.shape.lanes = 0
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
