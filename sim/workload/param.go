package workload

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tritier/tritier/internal/units"
)

// kind is the type of a parameter's value.
type kind uint8

const (
	countKind  kind = iota // whole number, 1000000 or 1M
	sizeKind               // bytes, 64KiB
	ratioKind              // real number
	choiceKind             // one of a list
)

// Param documents one parameter of a shape.
type Param struct {
	Name    string
	Doc     string   // one line
	Default string   // as Parse reads it; empty when it follows from others
	Choices []string // valid values, where they are a list
	// Sets names the parameter that this one is another way to give, in other
	// words: bytes sets pages. Such a parameter is not in the canonical form.
	Sets string

	kind     kind
	min, max float64
}

// value is a parameter's value: n for counts and sizes, x for ratios, word for
// choices.
type value struct {
	n    uint64
	x    float64
	word string
}

// values holds the parameters of one Spec by name.
type values map[string]value

func (v values) uint(name string) uint64   { return v[name].n }
func (v values) ratio(name string) float64 { return v[name].x }
func (v values) word(name string) string   { return v[name].word }
func (v values) yes(name string) bool      { return v[name].word == "true" }

// set stores a number.
func (v values) set(name string, n uint64) { v[name] = value{n: n} }

// has says whether the parameter was given or derived.
func (v values) has(name string) bool { _, ok := v[name]; return ok }

// parse reads a value and checks its range.
func (p *Param) parse(text string) (v value, err error) {
	switch p.kind {
	case countKind:
		v.n, err = units.ParseCount(text)
	case sizeKind:
		v.n, err = units.ParseBytes(text)
	case ratioKind:
		v.x, err = strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v.x) {
			return v, fmt.Errorf("%s=%s is not a number", p.Name, text)
		}
		v.x += 0 // -0 becomes 0
	case choiceKind:
		if !slices.Contains(p.Choices, text) {
			return v, fmt.Errorf("%s=%s: valid are %s", p.Name, text, strings.Join(p.Choices, ", "))
		}
		return value{word: text}, nil
	}
	if err != nil {
		return v, fmt.Errorf("%s: %w", p.Name, err)
	}
	return v, p.check(v)
}

// check compares a number with the parameter's bounds.
func (p *Param) check(v value) error {
	x := v.x
	if p.kind != ratioKind {
		x = float64(v.n)
	}
	if p.kind != choiceKind && (x < p.min || x > p.max) {
		return fmt.Errorf("%s=%s is out of range: %s to %s", p.Name, p.format(v), p.bound(p.min), p.bound(p.max))
	}
	return nil
}

// bound writes a limit in the parameter's own notation.
func (p *Param) bound(x float64) string {
	if p.kind == ratioKind {
		return p.format(value{x: x})
	}
	return p.format(value{n: uint64(x)})
}

// format writes a value so that parse gives it back exactly.
func (p *Param) format(v value) string {
	switch p.kind {
	case sizeKind:
		return units.ExactBytes(v.n)
	case ratioKind:
		return strconv.FormatFloat(v.x, 'g', -1, 64)
	case choiceKind:
		return v.word
	}
	return strconv.FormatUint(v.n, 10)
}

func count(name, def, doc string, low, high float64) Param {
	return Param{Name: name, Default: def, Doc: doc, kind: countKind, min: low, max: high}
}

func size(name, def, doc string, low, high float64) Param {
	return Param{Name: name, Default: def, Doc: doc, kind: sizeKind, min: low, max: high}
}

func ratio(name, def, doc string, low, high float64) Param {
	return Param{Name: name, Default: def, Doc: doc, kind: ratioKind, min: low, max: high}
}

func choice(name, def, doc string, choices ...string) Param {
	return Param{Name: name, Default: def, Doc: doc, kind: choiceKind, Choices: choices}
}

// instead marks a parameter as another way to give the named one.
func (p Param) instead(of string) Param {
	p.Sets = of
	return p
}

// Parameters that several shapes share.
var (
	pagesParam    = count("pages", "100000", "distinct pages", 1, 1<<40)
	pageSizeParam = size("page-size", "64KiB", "bytes of a page, a power of two", 1, 1<<30)
	accessesParam = count("accesses", "1000000", "length of the trace", 1, 1<<50)
	writesParam   = ratio("writes", "0", "share of the accesses that write a part of their page", 0, 1)
	thetaParam    = ratio("theta", "0.99", "skew: rank r is accessed in proportion to r^-theta", 0, 20)
	scrambleParam = choice("scramble", "false", "spread the ranks over the pages by a seeded permutation", "false", "true")
	seedParam     = count("seed", "1", "seed of every random choice", 0, math.MaxUint64)
	elemParam     = size("elem", "4B", "bytes of an element", 1, 4096)
	tileParam     = size("tile", "", "bytes of an array that a warp works through holding its pages; page-size when not given", 1, 1<<30)
)

// bytesParam is a total size that another parameter follows from.
func bytesParam(of, doc string) Param {
	return size("bytes", "", doc, 1, 1<<60).instead(of)
}
