package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is a name for people: as it is, or quoted when it holds characters
// that a terminal would act on (line ends, escape sequences) or that are no
// text. Different names stay different.
func Printable(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return name
	}
	return strconv.Quote(name)
}
