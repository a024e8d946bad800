package trace

import "bytes"

// parseLackey reads a line of valgrind --tool=lackey --trace-mem=yes: " L", " S"
// or " M", address in hexadecimal, size in bytes. Instruction fetches (I) and
// valgrind's own messages make no records; M is one access that writes.
func parseLackey(line []byte, r *Record) (ok bool, what string) {
	if lackeyNoise(line) {
		return false, ""
	}
	if len(line) < 3 || line[2] != ' ' && line[0] == ' ' {
		return false, "a line needs I, L, S or M and address,size: " + clip(line)
	}
	kind, rest := line[1], line[2:]
	if line[0] == 'I' {
		kind, rest = 'I', line[1:]
	}
	rest = bytes.TrimLeft(rest, " ")
	comma := bytes.IndexByte(rest, ',')
	if comma < 0 {
		return false, "no address,size: " + clip(line)
	}
	addr, ok := parseHex(rest[:comma])
	if !ok {
		return false, "address " + clip(rest[:comma]) + " is not hexadecimal below 2^64"
	}
	size, n, ok := parseDec(rest[comma+1:])
	if !ok || n != len(rest)-comma-1 || size == 0 {
		return false, "size " + clip(rest[comma+1:]) + " is not a positive number"
	}
	*r = Record{Addr: addr, Bytes: size}
	switch {
	case kind == 'I':
		return false, ""
	case line[0] != ' ':
		return false, "a line needs I, L, S or M and address,size: " + clip(line)
	case kind == 'L':
	case kind == 'S':
		r.Op = Write
	case kind == 'M':
		r.Op, r.Flags = Write, Update
	default:
		return false, "unknown access " + clip(line[:2]) + ": not L, S or M"
	}
	return true, checkRange(addr, size)
}

// lackeyNoise tells valgrind's messages, ==pid== and --pid--, and blank lines.
func lackeyNoise(line []byte) bool {
	if len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	for _, mark := range []string{"==", "--"} {
		if rest, ok := bytes.CutPrefix(line, []byte(mark)); ok {
			_, n, _ := parseDec(rest)
			return n > 0 && bytes.HasPrefix(rest[n:], []byte(mark))
		}
	}
	return false
}

// probeLackey accepts a head of lackey lines and noise with one access or fetch.
func probeLackey(h *head) verdict {
	lines := 0
	v := h.everyLine(func(line []byte) bool {
		var r Record
		if !lackeyNoise(line) {
			lines++
		}
		_, what := parseLackey(line, &r)
		return what == ""
	})
	if lines == 0 {
		return no
	}
	return v
}
