package cudafake

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// typeBytes is the size of PTX's basic types.
var typeBytes = map[string]uint64{
	".b8": 1, ".u8": 1, ".s8": 1, ".b16": 2, ".u16": 2, ".s16": 2, ".f16": 2, ".b32": 4, ".u32": 4, ".s32": 4, ".f32": 4,
	".f16x2": 4, ".b64": 8, ".u64": 8, ".s64": 8, ".f64": 8, ".b128": 16,
}

// variable reads a declaration from behind its state space: attributes, type,
// name, dimensions and initialiser. The end mark of a statement is taken.
func (p *parser) variable() variable {
	var v variable
	count := uint64(1)
	for p.err == nil && v.name == "" {
		t := p.next()
		size, isType := typeBytes[t]
		switch {
		case t == ".align" && v.element == 0:
			v.align = p.number()
		case t == ".align": // of what a pointer parameter points to
			p.number()
		case t == ".v2" || t == ".v4":
			count = uint64(t[2] - '0')
		case isType:
			v.element = size
		case strings.HasPrefix(t, "."): // .ptr and its state space
		case v.element == 0:
			p.fail("'" + t + "' is declared without a type")
		default:
			v.name = t
		}
	}
	count *= p.dimensions(v.name)
	if v.align&(v.align-1) != 0 || v.align > 1<<20 {
		p.fail("alignment of '" + v.name + "' is no power of two")
		v.align = 1
	}
	v.align = max(v.align, v.element, 1)
	v.size = count * v.element
	if p.peek() == "=" {
		p.initialiser(&v)
	}
	if p.peek() == ";" {
		p.next()
	}
	return v
}

// dimensions reads [n][n]… and gives their product; it is 0 where the size is
// given elsewhere.
func (p *parser) dimensions(name string) uint64 {
	count := uint64(1)
	for p.peek() == "[" {
		p.next()
		if p.peek() == "]" { // of a size that is given elsewhere
			count = 0
		} else if n := p.number(); n > math.MaxUint32 || count*n > math.MaxUint32 {
			p.fail("'" + name + "' is too large")
		} else {
			count *= n
		}
		p.expect("]")
	}
	return count
}

// initialiser reads numbers, in braces or without.
func (p *parser) initialiser(v *variable) {
	p.expect("=")
	for depth := 0; p.err == nil; {
		switch t := p.peek(); t {
		case ";", "":
			return
		case "{":
			depth++
			p.next()
		case "}":
			depth--
			p.next()
		case ",":
			p.next()
		default:
			p.value(v, p.next())
		}
		if depth < 0 {
			p.fail("unbalanced braces")
		}
	}
}

// value adds one element to v's initial content.
func (p *parser) value(v *variable, t string) {
	negative := t == "-"
	if negative {
		t = p.next()
	}
	var n uint64
	var err error
	if f, ok := strings.CutPrefix(strings.ToLower(t), "0f"); ok {
		n, err = strconv.ParseUint(f, 16, 32)
	} else if d, ok := strings.CutPrefix(strings.ToLower(t), "0d"); ok {
		n, err = strconv.ParseUint(d, 16, 64)
	} else {
		n, err = strconv.ParseUint(strings.TrimSuffix(t, "U"), 0, 64)
	}
	if err != nil || v.element > 8 {
		v.unknown = true // an address or an expression
		return
	}
	if negative {
		n = -n
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], n)
	if v.init = append(v.init, word[:v.element]...); uint64(len(v.init)) > v.size {
		p.fail("too many values for '" + v.name + "'")
	}
}
