package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tritier/tritier/sim/report"
)

// checkedWriter keeps the first error of a writer, for callers that drop it. A
// standard output that the shell closed (>&-) gives none: Go's runtime puts the
// null device in its place before anything else runs.
type checkedWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// maxMessage bounds one message of an error in characters.
const maxMessage = 1200

// oneLine writes an error on one line, whatever text it quotes.
func oneLine(err error) string { return errorLine(err, nil) }

// errorLine is oneLine for an error of a command line: those of its arguments
// that hold unprintable characters come quoted, so that they can be told from
// the text around them. Long messages lose their middle.
func errorLine(err error, args []string) string {
	text := err.Error()
	for _, a := range args {
		if _, value, found := strings.Cut(a, "="); found && strings.HasPrefix(a, "-") {
			a = value
		}
		if quoted := report.Printable(a); quoted != a {
			text = strings.ReplaceAll(text, a, quoted)
		}
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = escaped(middleOut(line, maxMessage))
	}
	return strings.Join(lines, "; ")
}

// escaped writes what cannot be printed as Go escapes, without quotes.
func escaped(s string) string {
	quoted := report.Printable(s)
	if quoted == s {
		return s
	}
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// middleOut cuts the middle out of a text longer than limit characters.
func middleOut(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	chars := []rune(s)
	const mark = "[...]"
	head := (limit - len(mark)) * 2 / 3
	tail := limit - len(mark) - head
	return string(slices.Concat(chars[:head], []rune(mark), chars[len(chars)-tail:]))
}
