package placement

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is a parameter of a Spec with its value there and the values that it
// may have: what a search over policies needs to know.
type Setting struct {
	Key   string // as With takes it: p, or t1.kin for a parameter of T1's evictor
	Value string // canonical
	Domain
}

// Domain is the set of values of a parameter: Words, or the numbers from Lo to
// Hi, without these two when Open.
type Domain struct {
	Default string
	Words   []string // nil for a number
	Integer bool
	Lo, Hi  float64
	Open    bool
}

// Keys of With that are no parameters.
const (
	KeyPlacer = "placer"
	KeyT1     = "t1"
	KeyT2     = "t2"
)

// Settings lists every parameter of s: those of the placer, then those of the
// evictors of T1 and T2, each in alphabetical order.
func (s Spec) Settings() []Setting {
	if s.placer == nil {
		return nil
	}
	out := settingsOf(nil, "", s.placer.params, s.args)
	out = settingsOf(out, KeyT1+".", s.t1.def.params, s.t1.args)
	return settingsOf(out, KeyT2+".", s.t2.def.params, s.t2.args)
}

func settingsOf(out []Setting, prefix string, params []param, args []setting) []Setting {
	for i, p := range params {
		d := Domain{Default: p.def, Words: slices.Clone(p.words), Integer: p.integer, Lo: p.lo, Hi: p.hi, Open: p.open}
		out = append(out, Setting{Key: prefix + p.name, Value: args[i].text, Domain: d})
	}
	return out
}

// With is s with one thing changed: a parameter by its Key; t1 or t2, whose
// value is an evictor in the grammar; or the placer, which keeps the evictors
// and has its default parameters. A value that makes no sense gives an error
// that says what would.
func (s Spec) With(key, value string) (Spec, error) {
	if s.placer == nil {
		return s, fmt.Errorf("an empty policy has no %s: make one with Parse", key)
	}
	switch key {
	case KeyPlacer:
		return parseInline(fmt.Sprintf("%s{t1=%s,t2=%s}", value, s.t1, s.t2))
	case KeyT1:
		return s.rebuilt(fmt.Sprintf("t1=%s,t2=%s", value, s.t2), "", "")
	case KeyT2:
		return s.rebuilt(fmt.Sprintf("t1=%s,t2=%s", s.t1, value), "", "")
	}
	t1, t2 := s.t1, s.t2
	switch tier, name, found := strings.Cut(key, "."); {
	case !found:
		return s.rebuilt(fmt.Sprintf("t1=%s,t2=%s", t1, t2), key, value)
	case tier == KeyT1:
		return s.rebuilt(fmt.Sprintf("t1=%s,t2=%s", t1.with(name, value), t2), "", "")
	case tier == KeyT2:
		return s.rebuilt(fmt.Sprintf("t1=%s,t2=%s", t1, t2.with(name, value)), "", "")
	}
	return s, fmt.Errorf("%s has no parameter %q", s.placer.name, key)
}

// rebuilt parses s with other evictors, and with key set to value if there is
// a key: whatever is wrong comes back as the parser's error.
func (s Spec) rebuilt(evictors, key, value string) (Spec, error) {
	b := new(strings.Builder)
	fmt.Fprintf(b, "%s{%s", s.placer.name, evictors)
	for i, p := range s.placer.params {
		if p.name != key {
			fmt.Fprintf(b, ",%s=%s", p.name, s.args[i].text)
		}
	}
	if key != "" {
		fmt.Fprintf(b, ",%s=%s", key, value)
	}
	b.WriteByte('}')
	return parseInline(b.String())
}

// with is e in the grammar with one parameter set.
func (e evictorSpec) with(name, value string) string {
	parts := make([]string, 0, len(e.args)+1)
	for i, p := range e.def.params {
		if p.name != name {
			parts = append(parts, p.name+"="+e.args[i].text)
		}
	}
	parts = append(parts, name+"="+value)
	return e.def.name + "(" + strings.Join(parts, ",") + ")"
}
