package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FormatBytes writes a size for people: the largest unit that it fills, with
// up to two digits after the point (64KiB, 1.5GiB, 1000B). ParseBytes reads it
// back; the result is exact whenever no digit had to be cut.
func FormatBytes(n uint64) string {
	unit := 0
	for unit+1 < len(byteSuffixes) && n >= byteSuffixes[unit+1].factor {
		unit++
	}
	s := byteSuffixes[unit]
	whole, rest := n/s.factor, n%s.factor
	if rest == 0 {
		return strconv.FormatUint(whole, 10) + s.name
	}
	// Cut, not rounded: 1023.999KiB must not read as 1024KiB.
	hundredths := uint64(float64(rest) / float64(s.factor) * 100)
	text := fmt.Sprintf("%d.%02d", whole, min(hundredths, 99))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + s.name
}

// ExactBytes writes a size so that ParseBytes gives the same number back: the
// largest unit that divides it (64KiB, 1536MiB, 1001B).
func ExactBytes(n uint64) string {
	unit := 0
	for n > 0 && unit+1 < len(byteSuffixes) && n%byteSuffixes[unit+1].factor == 0 {
		unit++
	}
	return strconv.FormatUint(n/byteSuffixes[unit].factor, 10) + byteSuffixes[unit].name
}

// FormatCount writes a count with a comma at each thousand: 12,345,678.
func FormatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// ParseDuration reads a duration in Go's notation (1.5s, 200us, 2h45m) that is
// not negative. Errors are *Error.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return 0, &Error{"duration", s, "not a duration; write a number and ns, us, ms, s, m or h, such as 1.5s"}
	}
	if d < 0 {
		return 0, &Error{"duration", s, "negative"}
	}
	return d, nil
}

// FormatDuration writes a duration for people with three significant digits
// below a minute (1.23ms, 45.6s) and whole seconds above (2m3s, 1h2m3s).
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-max(d, -1<<63+1))
	}
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit).String()
}

// Bytes is a size as a command-line flag value (it satisfies pflag.Value).
type Bytes uint64

// Set reads the flag.
func (b *Bytes) Set(s string) error {
	n, err := ParseBytes(s)
	if err == nil {
		*b = Bytes(n)
	}
	return err
}

// String writes the size exactly; an unset flag shows as empty.
func (b *Bytes) String() string {
	if *b == 0 {
		return ""
	}
	return ExactBytes(uint64(*b))
}

// Type names the value in help texts.
func (b *Bytes) Type() string { return "size" }
