package trace

import (
	"bytes"
	"fmt"
	"strings"
)

// lineJudge says what is wrong with a line of a text format, or "".
type lineJudge struct {
	format string
	judge  func(line []byte) (what string)
}

// lineJudges are the formats in which each line can be judged alone.
func lineJudges() []lineJudge {
	ids := func(d idsDecoder) func([]byte) string {
		return func(line []byte) string {
			var r Record
			_, what := d.parse(line, &r)
			return what
		}
	}
	one := func(parse func([]byte, *Record) (bool, string)) func([]byte) string {
		return func(line []byte) string {
			var r Record
			_, what := parse(line, &r)
			return what
		}
	}
	request := func(d *jsonLines) func([]byte) string {
		return func(line []byte) string {
			_, what := d.check(line)
			return what
		}
	}
	return []lineJudge{
		{"ids", ids(idsDecoder{ops: true})},
		{"ids", ids(idsDecoder{ops: true, base: hexadecimal})},
		{"lirs", ids(idsDecoder{stars: true})},
		{"lis", func(line []byte) string { _, _, what := lisLine(line); return what }},
		{"mqsim", one(parseMQSim)},
		{"lackey", one(parseLackey)},
		{"mooncake", request(newMooncake())},
		{"lmcache", request(newLMCache())},
	}
}

// nearly finds the format that a head of no known format was probably meant to
// be: the one that its name says, or that most of its lines are of. It gives
// the first line that is not, and why; line 0 means that there is none.
func nearly(h *head) (format string, line int64, what string) {
	most := 0
	named := false
	for _, j := range lineJudges() {
		good, bad, first, why := h.judge(j.judge)
		name := strings.Contains(strings.ToLower(h.name), "."+j.format)
		if bad == 0 || named && !name || !name && good <= bad {
			continue
		}
		if name && !named || good > most {
			named, most = name, good
			format, line, what = j.format, first, why
		}
	}
	return format, line, what
}

// judge counts the whole lines with something on them that are good and bad.
func (h *head) judge(judge func([]byte) string) (good, bad int, first int64, why string) {
	at := int64(0)
	for rest := h.buf; len(rest) > 0; {
		line, size := cutLine(rest, h.complete)
		if size == 0 {
			break
		}
		rest = rest[size:]
		at++
		if noContent(line) {
			continue
		}
		if what := judge(line); what == "" {
			good++
		} else if bad++; bad == 1 {
			first, why = at, what
		}
	}
	return good, bad, first, why
}

// noContent tells blank lines and comments.
func noContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// blank says that every line of the head is blank or a comment.
func (h *head) blank() bool {
	return h.everyLine(noContent) == sure
}

// unknown is the fault of a head whose format is not found.
func unknown(h *head) *Error {
	if h.complete && h.blank() {
		return &Error{Offset: -1, What: "the file has no records: only blank lines and comments"}
	}
	if format, line, what := nearly(h); line > 0 {
		return &Error{Line: line, What: fmt.Sprintf("no known trace format: nearly %s, but here %s; if it is another format, say which with --format NAME",
			format, what)}
	}
	return &Error{Offset: -1, What: fmt.Sprintf("no known trace format; if it is one of %s, say which with --format NAME",
		strings.Join(formatNames(), ", "))}
}
