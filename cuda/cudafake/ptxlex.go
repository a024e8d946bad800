package cudafake

import (
	"fmt"
	"strings"
)

// ptxError is what is wrong with a text, as the JIT's log says it.
type ptxError struct {
	line int
	text string
}

func (e *ptxError) Error() string {
	return fmt.Sprintf("ptx input, line %d; error: %s", e.line, e.text)
}

// token is a word, a number, a string or a punctuation mark.
type token struct {
	text string
	line int
}

// lex cuts PTX text into tokens, without comments and white space.
func lex(src string) ([]token, *ptxError) {
	var tokens []token
	line := 1
	for i := 0; i < len(src); {
		n, comment, err := tokenLength(src[i:])
		if err != "" {
			return nil, &ptxError{line, err}
		}
		t := src[i : i+n]
		if !comment && strings.TrimSpace(t) != "" {
			tokens = append(tokens, token{t, line})
		}
		line += strings.Count(t, "\n")
		i += n
	}
	return tokens, nil
}

// tokenLength is the length of the token at the start of s, n > 0.
func tokenLength(s string) (n int, comment bool, err string) {
	switch {
	case strings.HasPrefix(s, "//"):
		if n = strings.IndexByte(s, '\n'); n < 0 {
			n = len(s)
		}
		return n, true, ""
	case strings.HasPrefix(s, "/*"):
		if n = strings.Index(s, "*/"); n < 0 {
			return 0, true, "comment without end"
		}
		return n + 2, true, ""
	case s[0] == '"':
		if n = strings.IndexByte(s[1:], '"'); n < 0 {
			return 0, false, "string without end"
		}
		return n + 2, false, ""
	}
	for n < len(s) && wordByte(s[n]) {
		n++
	}
	return max(n, 1), false, ""
}

func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
		b == '_' || b == '$' || b == '%' || b == '.'
}
