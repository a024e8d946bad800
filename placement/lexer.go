package placement

import (
	"fmt"
	"strings"
)

// kind is a token's kind: word, end, or the byte itself for punctuation and
// for whatever does not belong in a policy.
type kind rune

const (
	end  kind = -1
	word kind = -2
)

// token is a piece of a policy string; pos is its byte offset.
type token struct {
	kind kind
	text string
	pos  int
}

// String names the token for an error message.
func (t token) String() string {
	if t.kind == end {
		return "the end"
	}
	return fmt.Sprintf("%q", t.text)
}

// next consumes one token.
func (p *parser) next() token {
	for p.off < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.off]) >= 0 {
		p.off++
	}
	start := p.off
	if start == len(p.in) {
		return token{kind: end, pos: start}
	}
	for p.off < len(p.in) && isWord(p.in[p.off]) {
		p.off++
	}
	if p.off > start {
		return token{kind: word, text: p.in[start:p.off], pos: start}
	}
	p.off++
	return token{kind: kind(p.in[start]), text: p.in[start:p.off], pos: start}
}

// peek is the next token, not consumed.
func (p *parser) peek() token {
	was := p.off
	t := p.next()
	p.off = was
	return t
}

// isWord says whether c may stand in a name, a key or a value.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-+._", c) >= 0
}

// SyntaxError says what is wrong with a policy string and what would be right.
type SyntaxError struct {
	Input string   // the whole policy string
	Pos   int      // byte offset of the offending token, from 0
	What  string   // what is wrong there
	Near  string   // the valid word that was probably meant, "" if none is close
	Valid []string // every valid word at that place, nil if it is not a choice
}

// Error names the place (counted from 1), the fault, the nearest valid word
// and all valid ones.
func (e *SyntaxError) Error() string {
	var b strings.Builder
	in := e.Input
	if len(in) > 120 {
		in = in[:120] + "..."
	}
	fmt.Fprintf(&b, "policy %q, character %d: %s", in, e.Pos+1, e.What)
	if e.Near != "" {
		fmt.Fprintf(&b, ", did you mean %q?", e.Near)
	}
	if len(e.Valid) > 0 {
		fmt.Fprintf(&b, " (valid: %s)", strings.Join(e.Valid, ", "))
	}
	return b.String()
}

// fail is a SyntaxError at byte offset pos.
func (p *parser) fail(pos int, format string, args ...any) error {
	return &SyntaxError{Input: p.in, Pos: pos, What: fmt.Sprintf(format, args...)}
}

// failValid is fail with a list of what would be right.
func (p *parser) failValid(pos int, valid []string, format string, args ...any) error {
	return &SyntaxError{Input: p.in, Pos: pos, What: fmt.Sprintf(format, args...), Valid: valid}
}

// unknown is failValid for a word that is none of valid.
func (p *parser) unknown(t token, what string, valid []string) error {
	e := &SyntaxError{Input: p.in, Pos: t.pos, Valid: valid, Near: nearest(t.text, valid)}
	e.What = fmt.Sprintf("unknown %s %q", what, t.text)
	if len(valid) == 0 {
		e.What += ": it takes no parameters"
	}
	return e
}

// nearest is the valid word within two edits of got, the closest and then the
// first one; "" if there is none or if so many edits would replace all of got.
func nearest(got string, valid []string) string {
	best, name := min(3, len(got)), ""
	for _, v := range valid {
		if d := edits(strings.ToLower(got), v); d < best {
			best, name = d, v
		}
	}
	return name
}

// edits is the Levenshtein distance of a and b in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
