package trace

// lisDecoder reads the traces of the ARC paper (Megiddo and Modha, FAST 2003):
// each line is "start count 0 request", and makes count page accesses.
type lisDecoder struct {
	line    int64
	next    uint64 // page of the next record of the current line
	left    uint64 // records of it that are not made yet
	started bool   // the current line has made its first record
}

// maxLisCount is the longest run of one line: longer ones are damage.
const maxLisCount = 1 << 32

// decode implements decoder.
func (d *lisDecoder) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		if d.left > 0 {
			n += d.emit(recs[n:])
			continue
		}
		start, count, size, ok := lisFast(buf[used:])
		if !ok {
			var line []byte
			line, size = cutLine(buf[used:], last)
			if size == 0 {
				break
			}
			var what string
			start, count, what = lisLine(line)
			if what != "" {
				return n, used, &fault{line: d.line + 1, what: what}
			}
		}
		d.line++
		used += size
		if count == 1 {
			recs[n] = Record{Addr: start, Flags: PageAddressed | RequestStart}
			n++
			continue
		}
		d.next, d.left, d.started = start, count, false
	}
	return n, used, nil
}

// emit makes records of the current line.
func (d *lisDecoder) emit(recs []Record) int {
	n := int(min(uint64(len(recs)), d.left))
	for i := range recs[:n] {
		recs[i] = Record{Addr: d.next, Flags: PageAddressed}
		d.next++
	}
	if !d.started {
		recs[0].Flags |= RequestStart
		d.started = true
	}
	d.left -= uint64(n)
	return n
}

// lisFast parses the usual line, "start count 0 0", without looking for its end
// first. It reports false for everything else.
func lisFast(b []byte) (start, count uint64, size int, ok bool) {
	i := 0
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		start = start*10 + uint64(b[i]-'0')
	}
	if i == 0 || i > 18 || i >= len(b) || b[i] != ' ' {
		return 0, 0, 0, false
	}
	i++
	from := i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		count = count*10 + uint64(b[i]-'0')
	}
	if i == from || i > from+8 || len(b)-i < 5 || string(b[i:i+5]) != " 0 0\n" || count == 0 {
		return 0, 0, 0, false
	}
	return start, count, i + 5, true
}

// lisLine parses any line strictly; a blank one makes no records.
func lisLine(line []byte) (start, count uint64, what string) {
	var f [5][]byte
	switch n := splitFields(line, f[:]); n {
	case 0:
		return 0, 0, ""
	case 4:
	default:
		return 0, 0, "a line needs four numbers: start count 0 request"
	}
	var v [4]uint64
	for i, tok := range f[:4] {
		var ok bool
		var size int
		if v[i], size, ok = parseDec(tok); !ok || size != len(tok) {
			return 0, 0, clip(tok) + " is not a decimal number below 2^64"
		}
	}
	switch {
	case v[1] == 0 || v[1] > maxLisCount:
		return 0, 0, "the count must be between 1 and 2^32, not " + clip(f[1])
	case v[0]+(v[1]-1) < v[0]:
		return 0, 0, "start plus count is beyond 2^64"
	}
	return v[0], v[1], ""
}

// splitFields cuts a line at spaces and tabs into f and returns how many fields
// there are, at most len(f).
func splitFields(line []byte, f [][]byte) int {
	n := 0
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		if n == len(f) {
			return n
		}
		from := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' {
			i++
		}
		f[n] = line[from:i]
		n++
	}
	return n
}

// probeLis accepts a head in which every line is "start count 0 request".
func probeLis(h *head) verdict {
	return h.everyLine(func(line []byte) bool {
		var f [5][]byte
		if _, count, what := lisLine(line); what != "" || count == 0 {
			return false
		}
		splitFields(line, f[:])
		return string(f[2]) == "0"
	})
}
