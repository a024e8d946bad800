package trace

// verdict is what a format's probe says of an input's head.
type verdict uint8

const (
	no    verdict = iota // cannot be this format
	maybe                // could be, and so could others
	sure                 // the content proves it
)

// head is the start of an input, for detection.
type head struct {
	buf      []byte   // up to headBytes, decompressed
	complete bool     // buf is all of the input
	size     int64    // size of the decompressed input; -1 when unknown
	name     string   // base name of the file; never proof, only a tie-breaker
	columns  []string // csv columns that the caller named

	ids   *idsKind // cache of scanIDs
	idsOK bool
}

// detect asks every format. The registry's order is kept.
func detect(h *head) (proven, possible []string) {
	for i := range formats {
		f := &formats[i]
		if f.probe == nil {
			continue
		}
		switch f.probe(h) {
		case sure:
			if f.magic {
				return []string{f.name}, nil
			}
			proven = append(proven, f.name)
		case maybe:
			possible = append(possible, f.name)
		}
	}
	return proven, possible
}

// everyLine applies ok to each whole line of the head: sure if all are ok and
// there is at least one, else no. A last line that the head cuts off is left out.
func (h *head) everyLine(ok func(line []byte) bool) verdict {
	rest, n := h.buf, 0
	for len(rest) > 0 {
		line, size := cutLine(rest, h.complete)
		if size == 0 {
			break
		}
		if !ok(line) {
			return no
		}
		rest = rest[size:]
		n++
	}
	if n == 0 {
		return no
	}
	return sure
}
