package trace

import "bytes"

// base is how digits without a 0x prefix are read.
type base uint8

const (
	decimal base = iota
	hexadecimal
)

// idsDecoder reads one page number a line, with an optional operation after it,
// and, for LIRS traces, lines of a single * between requests. Blank lines and
// comments after # are skipped.
type idsDecoder struct {
	base  base
	stars bool // * lines are request boundaries
	ops   bool // an operation may follow the number
	line  int64
	start uint8 // RequestStart if the next record starts a request
}

// decode implements decoder.
func (d *idsDecoder) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		if d.base == decimal {
			k, size := decFast(buf[used:], recs[n:])
			if k > 0 {
				recs[n].Flags |= d.start
				d.start = 0
			}
			n, used, d.line = n+k, used+size, d.line+int64(k)
		} else {
			k, size := hexFast(buf[used:], recs[n:])
			n, used, d.line = n+k, used+size, d.line+int64(k)
		}
		if n == len(recs) {
			break
		}
		line, size := cutLine(buf[used:], last)
		if size == 0 {
			break
		}
		d.line++
		ok, what := d.parse(line, &recs[n])
		if what != "" {
			return n, used, &fault{line: d.line, what: what}
		}
		used += size
		if ok {
			n++
		}
	}
	return n, used, nil
}

// decFast makes records of lines that are nothing but 1 to 19 decimal digits;
// it stops at the first line of any other kind.
func decFast(b []byte, recs []Record) (n, used int) {
	i := 0
	for n < len(recs) {
		from, v := i, uint64(0)
		for i < len(b) {
			c := b[i] - '0'
			if c > 9 {
				break
			}
			v = v*10 + uint64(c)
			i++
		}
		if i == from || i-from > 19 || i >= len(b) {
			return n, from
		}
		if b[i] == '\r' && i+1 < len(b) {
			i++
		}
		if b[i] != '\n' {
			return n, from
		}
		i++
		recs[n] = Record{Addr: v, Flags: PageAddressed}
		n++
	}
	return n, i
}

// hexFast makes records of lines that are 1 to 16 hexadecimal digits and " R"
// or " W"; it stops at the first line of any other kind.
func hexFast(b []byte, recs []Record) (n, used int) {
	i := 0
	for n < len(recs) {
		from, v := i, uint64(0)
		for i < len(b) && hexDigit[b[i]] < 16 {
			v = v<<4 | uint64(hexDigit[b[i]])
			i++
		}
		if i == from || i-from > 16 || len(b)-i < 3 || b[i] != ' ' || b[i+2] != '\n' {
			return n, from
		}
		op := Read
		if c := b[i+1]; c == 'W' {
			op = Write
		} else if c != 'R' {
			return n, from
		}
		i += 3
		recs[n] = Record{Addr: v, Flags: PageAddressed, Op: op}
		n++
	}
	return n, i
}

// hexDigit is the value of each hexadecimal digit, and 16 for other bytes.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		switch c := byte(i); {
		case c >= '0' && c <= '9':
			t[i] = c - '0'
		case c >= 'a' && c <= 'f':
			t[i] = c - 'a' + 10
		case c >= 'A' && c <= 'F':
			t[i] = c - 'A' + 10
		default:
			t[i] = 16
		}
	}
	return t
}()

// parse reads any line strictly.
func (d *idsDecoder) parse(line []byte, r *Record) (ok bool, what string) {
	if k := bytes.IndexByte(line, '#'); k >= 0 {
		line = line[:k]
	}
	var f [3][]byte
	n := splitFields(line, f[:])
	switch {
	case n == 0:
		return false, ""
	case n == 1 && string(f[0]) == "*":
		if !d.stars {
			return false, "a * line is a request boundary of the lirs format: use --format lirs"
		}
		d.start = RequestStart
		return false, ""
	case n > 2 || n == 2 && !d.ops:
		return false, "more on the line than " + d.want() + ": " + clip(line)
	}
	v, good := d.number(f[0])
	if !good {
		return false, clip(f[0]) + " is not a " + d.base.String() + " page number below 2^64" + d.hint(f[0])
	}
	*r = Record{Addr: v, Flags: PageAddressed | d.start}
	if n == 2 {
		if r.Op, good = parseOp(f[1]); !good {
			return false, "the operation must be R, W or P, not " + clip(f[1])
		}
	}
	d.start = 0
	return true, ""
}

// want is what a line may hold.
func (d *idsDecoder) want() string {
	if d.ops {
		return "a page number and R, W or P"
	}
	return "a page number"
}

// hint helps with the one mistake that detection can make.
func (d *idsDecoder) hint(tok []byte) string {
	if d.base == decimal {
		if _, ok := parseHex(tok); ok {
			return "; if all numbers are hexadecimal, use --format ids-hex"
		}
	}
	return ""
}

// number reads a page number; a 0x prefix means hexadecimal in any base.
func (d *idsDecoder) number(tok []byte) (uint64, bool) {
	if v, ok := parse0x(tok); ok {
		return v, true
	}
	if d.base == hexadecimal {
		return parseHex(tok)
	}
	v, n, ok := parseDec(tok)
	return v, ok && n == len(tok)
}

// String names the base for messages.
func (b base) String() string {
	if b == hexadecimal {
		return "hexadecimal"
	}
	return "decimal"
}

// parseHex reads all of tok as hexadecimal digits below 2^64.
func parseHex(tok []byte) (v uint64, ok bool) {
	for _, c := range tok {
		if hexDigit[c] > 15 || v>>60 != 0 {
			return 0, false
		}
		v = v<<4 | uint64(hexDigit[c])
	}
	return v, len(tok) > 0
}

// parseOp reads an operation: R, W, P, or the whole word, in any case.
func parseOp(tok []byte) (Op, bool) {
	if len(tok) == 0 || len(tok) > len("prefetch") {
		return Read, false
	}
	switch string(bytes.ToLower(tok)) {
	case "r", "read", "load", "get":
		return Read, true
	case "w", "write", "store", "set", "put":
		return Write, true
	case "p", "prefetch":
		return Prefetch, true
	}
	return Read, false
}

// idsKind is what the lines of a head of plain ids look like.
type idsKind struct {
	hex    bool // a number has a digit beyond 9 and no 0x
	digits bool // some number has a decimal digit
	stars  bool
	ops    bool
	lines  int
}

// scanIDs classifies a head, once; ok is false when a line is not of these
// formats.
func scanIDs(h *head) (k idsKind, ok bool) {
	if h.ids == nil {
		k, ok = classifyIDs(h)
		h.ids, h.idsOK = &k, ok
	}
	return *h.ids, h.idsOK
}

func classifyIDs(h *head) (k idsKind, ok bool) {
	decOK, hexOK := true, true
	v := h.everyLine(func(line []byte) bool {
		if j := bytes.IndexByte(line, '#'); j >= 0 {
			line = line[:j]
		}
		var f [3][]byte
		switch n := splitFields(line, f[:]); {
		case n == 0:
			return true
		case n == 1 && string(f[0]) == "*":
			k.stars = true
			return true
		case n == 2:
			k.ops = true
			if _, good := parseOp(f[1]); !good {
				return false
			}
		case n == 3:
			return false
		}
		k.lines++
		if _, good := parse0x(f[0]); good {
			k.digits = true
			return true
		}
		if _, n, good := parseDec(f[0]); !good || n != len(f[0]) {
			decOK = false
		}
		if _, good := parseHex(f[0]); !good {
			hexOK = false
		}
		for _, c := range f[0] {
			k.hex = k.hex || c > '9' && hexDigit[c] < 16
			k.digits = k.digits || c <= '9' && c >= '0'
		}
		return decOK || hexOK
	})
	return k, v != no && k.lines > 0 && (k.hex && hexOK || !k.hex && decOK)
}

// probeIDs accepts page numbers without * lines. Hexadecimal digits without a
// single decimal one may be words, and are not sure.
func probeIDs(h *head) verdict {
	k, ok := scanIDs(h)
	switch {
	case !ok || k.stars:
		return no
	case !k.digits:
		return maybe
	}
	return sure
}

// probeLirs accepts decimal page numbers with * lines between them.
func probeLirs(h *head) verdict {
	k, ok := scanIDs(h)
	if !ok || !k.stars || k.hex || k.ops {
		return no
	}
	return sure
}

// newIDs makes the decoder of the formats ids, ids-hex and lirs.
func newIDs(info *Info, h *head, o *Options) decoder {
	k, _ := scanIDs(h)
	d := &idsDecoder{ops: true}
	switch info.Format {
	case "lirs":
		return &idsDecoder{stars: true, start: RequestStart}
	case "ids-hex":
		d.base = hexadecimal
	default:
		if k.hex {
			d.base = hexadecimal
		}
		// Decimal ids are read alike in both formats up to the first * line,
		// which can only be one of LIRS; it may come after the head.
		d.stars = o.Format == ""
	}
	info.Writes = k.ops
	return d
}
