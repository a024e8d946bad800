// Package units reads and writes the quantities of flags and reports: sizes
// with binary suffixes (64KiB, 16GiB), counts and durations.
//
// Decimal suffixes (KB, GB) and bare letters (K, G) of sizes are refused: half
// of the world reads them as powers of 1000, and a wrong tier size goes
// unnoticed. All functions are pure and safe for concurrent use.
package units

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Error is a quantity that cannot be read.
type Error struct {
	Quantity string // "size", "count" or "duration"
	Input    string // what was given
	What     string // what is wrong with it, and what to write instead
}

// Error gives one line: the quantity, the input, the fault.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Quantity, e.Input, e.What)
}

// suffix is a unit and its factor as a multiplier of the number before it.
type suffix struct {
	name   string
	factor uint64
}

var (
	byteSuffixes = []suffix{
		{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"TiB", 1 << 40}, {"PiB", 1 << 50}, {"EiB", 1 << 60},
	}
	countSuffixes = []suffix{{"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}
)

// ParseBytes reads a size: a decimal number, whole or with a fraction, and one
// of B, KiB, MiB, GiB, TiB, PiB, EiB in any case; no suffix means bytes. A
// fraction of a byte is rounded to the nearest byte. Errors are *Error.
func ParseBytes(s string) (uint64, error) {
	number, name := split(s)
	factor, ok := find(byteSuffixes, name)
	if !ok {
		return 0, &Error{"size", s, byteHelp(number, name)}
	}
	return scale("size", s, number, factor)
}

// ParseCount reads a number of things: a decimal number, whole or with a
// fraction, and optionally one of K, M, G, T for 10^3, 10^6, 10^9, 10^12 in
// any case. Errors are *Error.
func ParseCount(s string) (uint64, error) {
	number, name := split(s)
	factor, ok := find(countSuffixes, name)
	if !ok {
		return 0, &Error{"count", s, fmt.Sprintf("unknown suffix %q; use K, M, G or T (powers of 1000)", name)}
	}
	return scale("count", s, number, factor)
}

// split parts a quantity into its number and its suffix.
func split(s string) (number, name string) {
	text := strings.TrimSpace(s)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	return text[:end], strings.TrimSpace(text[end:])
}

// find looks a suffix up, case ignored; none at all has the factor 1.
func find(in []suffix, name string) (factor uint64, ok bool) {
	if name == "" {
		return 1, true
	}
	for _, s := range in {
		if strings.EqualFold(s.name, name) {
			return s.factor, true
		}
	}
	return 0, false
}

// byteHelp explains a suffix that is no size, and guesses what was meant.
func byteHelp(number, name string) string {
	if letter := strings.ToUpper(name[:1]); strings.Contains("KMGTPE", letter) && number != "" {
		return fmt.Sprintf("unknown suffix %q; sizes are binary: write %s%siB", name, number, letter)
	}
	return fmt.Sprintf("unknown suffix %q; use B, KiB, MiB, GiB, TiB, PiB or EiB", name)
}

// maxDigits bounds the digits after the point so that they fit 64 bits.
const maxDigits = 18

// scale multiplies a decimal number by factor without floating point, so that
// every size that fits 64 bits is exact.
func scale(quantity, input, number string, factor uint64) (uint64, error) {
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" && fraction == "" || point && fraction == "" {
		return 0, &Error{quantity, input, "not a number"}
	}
	if len(fraction) > maxDigits {
		return 0, &Error{quantity, input, fmt.Sprintf("more than %d digits after the point", maxDigits)}
	}
	w, err := digits(whole)
	if err != nil {
		return 0, &Error{quantity, input, err.Error()}
	}
	f, err := digits(fraction)
	if err != nil {
		return 0, &Error{quantity, input, err.Error()}
	}
	divisor := uint64(1)
	for range fraction {
		divisor *= 10
	}
	// f < divisor, so the high word of the product is below divisor too and
	// the division cannot overflow.
	high, low := bits.Mul64(f, factor)
	part, rest := bits.Div64(high, low, divisor)
	if rest >= divisor-rest {
		part++
	}
	over, n := bits.Mul64(w, factor)
	n, carry := bits.Add64(n, part, 0)
	if over != 0 || carry != 0 {
		return 0, &Error{quantity, input, "does not fit 64 bits"}
	}
	return n, nil
}

// digits reads decimal digits only: no sign, no underscore; "" is 0.
func digits(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	if strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("not a number")
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("does not fit 64 bits")
	}
	return n, nil
}
