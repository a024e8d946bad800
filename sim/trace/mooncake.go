package trace

import "bytes"

// jsonLines decodes formats with one request a line, whose pages are in one
// array of the line's object. A line is checked as a whole before its first
// record is made; the ids are then parsed again, in place, as records are asked
// for, so that a long line needs no memory beyond the window.
type jsonLines struct {
	keyTime string // field of the request's time
	unit    uint64 // ns of one unit of it
	keyIDs  string // field of the array of page ids
	id      func(s *jscan) (uint64, bool)
	keyName string // field whose text is part of the pages' identity, or empty

	names  map[string]uint32 // its values so far, numbered from 0
	array  uint32
	line   int64
	time   uint64
	inside bool  // the window starts within the array of a checked line
	flags  uint8 // of the next record
}

// newMooncake decodes the Mooncake traces (kvcache-ai/Mooncake, FAST 2025).
func newMooncake() *jsonLines {
	return &jsonLines{keyTime: "timestamp", unit: 1e6, keyIDs: "hash_ids", id: (*jscan).uint}
}

// decode implements decoder.
func (d *jsonLines) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		if d.inside {
			k, size := d.emit(buf[used:], recs[n:])
			n += k
			used += size
			continue
		}
		line, size := cutLine(buf[used:], last)
		if size == 0 {
			break
		}
		d.line++
		if len(bytes.TrimSpace(line)) == 0 {
			used += size
			continue
		}
		at, what := d.check(line)
		if what != "" {
			return n, used, &fault{line: d.line, what: what}
		}
		used += at
		d.inside, d.flags = true, PageAddressed|RequestStart
	}
	return n, used, nil
}

// emit makes records from a checked array, whose next element is at the front
// of buf, and consumes the rest of the line after its last element.
func (d *jsonLines) emit(buf []byte, recs []Record) (n, used int) {
	s := jscan{b: buf}
	for n < len(recs) {
		if s.take(']') {
			d.inside = false
			if k := bytes.IndexByte(buf[s.i:], '\n'); k >= 0 {
				return n, s.i + k + 1
			}
			return n, len(buf)
		}
		s.take(',')
		v, _ := d.id(&s)
		recs[n] = Record{Addr: v, Time: d.time, Array: d.array, Flags: d.flags}
		d.flags = PageAddressed
		n++
	}
	return n, s.i
}

// check scans a whole line and returns where its array's elements start, or
// what is wrong with it.
func (d *jsonLines) check(line []byte) (at int, what string) {
	s := jscan{b: line}
	times := 0
	field := func(key []byte) bool {
		switch string(key) {
		case d.keyTime:
			times++
			tok, ok := s.number()
			if !ok {
				what = d.keyTime + " is not a number"
			} else if d.time, ok = parseScaled(tok, d.unit); !ok {
				what = d.keyTime + " " + clip(tok) + " is negative or out of range"
			}
		case d.keyIDs:
			if at > 0 {
				what = d.keyIDs + " is given twice"
				return false
			}
			if at, what = d.checkIDs(&s); what != "" {
				return false
			}
		default:
			if d.keyName != "" && string(key) == d.keyName && s.ws() == '"' {
				what = d.name(&s)
				return what == ""
			}
			return s.skip(0)
		}
		return what == ""
	}
	d.array = 0
	switch ok := s.object(field); {
	case what != "":
		return 0, what
	case !ok:
		return 0, "not a JSON object, or cut off"
	case s.ws() != 0 || s.i < len(line):
		return 0, "text after the JSON object"
	case times != 1:
		return 0, "the request needs one " + d.keyTime
	case at == 0:
		return 0, "the request has no " + d.keyIDs
	}
	return at, ""
}

// maxNames bounds the distinct values of a name field.
const maxNames = 1 << 16

// name reads the line's name and numbers it.
func (d *jsonLines) name(s *jscan) (what string) {
	b, ok := s.str()
	if !ok {
		return d.keyName + " is not a string"
	}
	n, seen := d.names[string(b)]
	if !seen {
		if len(d.names) == maxNames {
			return "more than 65,536 distinct values of " + d.keyName
		}
		if d.names == nil {
			d.names = map[string]uint32{}
		}
		n = uint32(len(d.names))
		d.names[string(b)] = n
	}
	d.array = n
	return ""
}

// checkIDs scans the array of ids and returns where its first element starts.
func (d *jsonLines) checkIDs(s *jscan) (at int, what string) {
	if s.ws() != '[' {
		return 0, d.keyIDs + " is not an array"
	}
	at = s.i + 1
	if !s.array(func() bool { _, ok := d.id(s); return ok }) {
		rest := s.b[min(s.i, len(s.b)):]
		return 0, "bad id in " + d.keyIDs + " near " + clip(rest[:min(24, len(rest))])
	}
	return at, ""
}

// clip shortens text of the input for a message and makes it printable.
func clip(b []byte) string {
	const most = 40
	out := make([]byte, 0, most)
	for _, c := range b[:min(len(b), most)] {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	if len(b) > most {
		out = append(out, "..."...)
	}
	return `"` + string(out) + `"`
}

// firstLine is the first line of a head that has something on it.
func (h *head) firstLine() []byte {
	rest := h.buf
	for len(rest) > 0 {
		line, size := cutLine(rest, true)
		if len(bytes.TrimSpace(line)) > 0 {
			return line
		}
		rest = rest[size:]
	}
	return nil
}

// jsonKeys reports which keys the first JSON object in b has, as far as b goes.
func jsonKeys(b []byte) map[string]bool {
	keys := map[string]bool{}
	s := jscan{b: b}
	s.object(func(key []byte) bool {
		if len(keys) < 64 {
			keys[string(key)] = true
		}
		return s.skip(0)
	})
	return keys
}

// probeKeys makes a probe for JSON lines with the given keys.
func probeKeys(want ...string) func(h *head) verdict {
	return func(h *head) verdict {
		line := h.firstLine()
		if len(line) == 0 || bytes.TrimSpace(line)[0] != '{' {
			return no
		}
		keys := jsonKeys(line)
		for _, w := range want {
			if !keys[w] {
				return no
			}
		}
		return sure
	}
}
