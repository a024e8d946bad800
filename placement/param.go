package placement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// param describes a parameter of a policy: a choice of words, an integer or a
// number, with the range that makes sense.
type param struct {
	name, doc string
	def       string   // default, in canonical form
	words     []string // a choice of these, or nil for a number
	integer   bool
	lo, hi    float64 // of a number; an integer's are below 2^53
	open      bool    // lo and hi themselves are excluded
}

// setting is a parameter's value.
type setting struct {
	text string  // canonical form
	num  float64 // of a number
}

// int is the value of an integer parameter.
func (s setting) int() int { return int(s.num) }

var errWord = errors.New("not a valid word")

// parse reads a value and brings it into canonical form.
func (p param) parse(text string) (setting, error) {
	switch {
	case p.words != nil:
		for _, w := range p.words {
			if w == text {
				return setting{text: w}, nil
			}
		}
		return setting{}, errWord
	case p.integer:
		n, err := strconv.ParseInt(text, 10, 54)
		if err != nil || !p.holds(float64(n)) {
			return setting{}, fmt.Errorf("want an integer, %s", p.bounds())
		}
		return setting{text: strconv.FormatInt(n, 10), num: float64(n)}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !p.holds(f) {
		return setting{}, fmt.Errorf("want a number, %s", p.bounds())
	}
	f += 0 // -0 becomes 0, which prints and reads back alike
	return setting{text: strconv.FormatFloat(f, 'g', -1, 64), num: f}, nil
}

// holds says whether f is in range; no NaN is.
func (p param) holds(f float64) bool {
	if p.open {
		return f > p.lo && f < p.hi
	}
	return f >= p.lo && f <= p.hi
}

// bounds is the range in words.
func (p param) bounds() string {
	if p.words != nil {
		return strings.Join(p.words, "|")
	}
	less := "<="
	if p.open {
		less = "<"
	}
	return fmt.Sprintf("%s %s %s %s %s", decimal(p.lo), less, p.name, less, decimal(p.hi))
}

// decimal is f without an exponent.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// info is the parameter for a help text.
func (p param) info() ParamInfo {
	return ParamInfo{Name: p.name, Doc: p.doc, Default: p.def, Range: p.bounds()}
}

// integerParam is a parameter that counts something.
func integerParam(name string, def, lo, hi int, doc string) param {
	return param{name: name, doc: doc, def: strconv.Itoa(def), integer: true, lo: float64(lo), hi: float64(hi)}
}

// shareParam is a share of something, above 0 and below limit.
func shareParam(name, def string, limit float64, doc string) param {
	return param{name: name, doc: doc, def: def, hi: limit, open: true}
}

// unitParam is a number from 0 to 1.
func unitParam(name, def, doc string) param {
	return param{name: name, doc: doc, def: def, hi: 1}
}

// defaults are the default values of params.
func defaults(params []param) []setting {
	args := make([]setting, len(params))
	for i, p := range params {
		args[i], _ = p.parse(p.def) // a test parses every default
	}
	return args
}
