package trace

import (
	"math/big"
	"math/bits"
)

// jscan is a scanner over one JSON text that builds nothing: it skips what a
// reader does not ask for, and numbers are parsed in place.
type jscan struct {
	b []byte
	i int
}

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 1000

// ws skips white space and returns the byte there, or 0 at the end.
func (s *jscan) ws() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take consumes c, after white space.
func (s *jscan) take(c byte) bool {
	if s.ws() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

// str consumes a string and returns what is between the quotes, escapes as
// they stand.
func (s *jscan) str() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], true
		case c == '\\':
			s.i += 2
		case c < ' ':
			return nil, false
		default:
			s.i++
		}
	}
	return nil, false
}

// number consumes a number and returns its text.
func (s *jscan) number() ([]byte, bool) {
	s.ws()
	start, digits := s.i, 0
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c >= '0' && c <= '9':
			digits++
			continue
		case c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E':
			continue
		}
		break
	}
	return s.b[start:s.i], digits > 0
}

// uint consumes an unsigned integer below 2^64.
func (s *jscan) uint() (uint64, bool) {
	s.ws()
	v, n, ok := parseDec(s.b[s.i:])
	s.i += n
	if ok && s.i < len(s.b) {
		switch s.b[s.i] {
		case '.', 'e', 'E':
			return 0, false
		}
	}
	return v, ok
}

// literal consumes w.
func (s *jscan) literal(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// skip consumes any value.
func (s *jscan) skip(depth int) bool {
	switch s.ws() {
	case '"':
		_, ok := s.str()
		return ok
	case '{':
		return depth < maxDepth && s.object(func([]byte) bool { return s.skip(depth + 1) })
	case '[':
		return depth < maxDepth && s.array(func() bool { return s.skip(depth + 1) })
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	_, ok := s.number()
	return ok
}

// object consumes an object; f consumes the value of each key, and false from
// it ends the scan.
func (s *jscan) object(f func(key []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		key, ok := s.str()
		if !ok || !s.take(':') || !f(key) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// array consumes an array; f consumes each element.
func (s *jscan) array(f func() bool) bool {
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		return true
	}
	for f() {
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
	return false
}

// parseDec parses the decimal digits at the front of b; n is their count, and
// ok is false when there are none or the value is beyond 64 bits.
func parseDec(b []byte) (v uint64, n int, ok bool) {
	for n < len(b) && n < 19 {
		c := b[n] - '0'
		if c > 9 {
			return v, n, n > 0
		}
		v = v*10 + uint64(c)
		n++
	}
	ok = n > 0
	for ; n < len(b); n++ {
		c := b[n] - '0'
		if c > 9 {
			break
		}
		hi, lo := bits.Mul64(v, 10)
		sum, carry := bits.Add64(lo, uint64(c), 0)
		if hi != 0 || carry != 0 {
			ok = false
		}
		v = sum
	}
	return v, n, ok
}

// parseScaled reads a decimal number such as 12.5 or 1.7e9 and returns it times
// unit, rounded down, exactly. It reports false for a negative number and for a
// result beyond 64 bits.
func parseScaled(tok []byte, unit uint64) (uint64, bool) {
	v, n, ok := parseDec(tok)
	hi, whole := bits.Mul64(v, unit)
	switch {
	case !ok || hi != 0:
		return 0, false // also for a sign, and for .5
	case n == len(tok):
		return whole, true
	case tok[n] != '.':
		return parseExponent(tok, unit)
	}
	frac, k, ok := parseDec(tok[n+1:])
	if n+1+k < len(tok) || k > 18 {
		return parseExponent(tok, unit)
	}
	scale := uint64(1)
	for range k {
		scale *= 10
	}
	hi, lo := bits.Mul64(frac, unit)
	if hi >= scale { // cannot be while unit is below 2^64 / 10^18
		return 0, false
	}
	part, _ := bits.Div64(hi, lo, scale)
	sum, carry := bits.Add64(whole, part, 0)
	return sum, ok && carry == 0
}

// parseExponent is parseScaled for numbers that are rare: those with an exponent
// or with more than 18 digits after the point.
func parseExponent(tok []byte, unit uint64) (uint64, bool) {
	if len(tok) > 64 {
		return 0, false
	}
	for i, c := range tok { // bounds the work and the memory of big.Rat
		switch {
		case (c == 'e' || c == 'E') && len(tok)-i > 4, c == '/' || c == '_' || c|0x20 == 'x' || c|0x20 == 'p':
			return 0, false
		}
	}
	x, ok := new(big.Rat).SetString(string(tok))
	if !ok || x.Sign() < 0 {
		return 0, false
	}
	x.Mul(x, new(big.Rat).SetInt(new(big.Int).SetUint64(unit)))
	z := new(big.Int).Quo(x.Num(), x.Denom())
	return z.Uint64(), z.IsUint64()
}
