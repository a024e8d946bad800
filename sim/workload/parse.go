package workload

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
)

// shape is one kind of workload.
type shape struct {
	name   string
	doc    string
	params []Param
	// derive turns the parameters that are another way to give something into
	// what they set. It sees given values and defaults of independent ones.
	derive func(v values) error
	// accesses is the length in records; nil when only a run tells.
	accesses func(v values) uint64
	// open prepares a run. Loops of a run end when the stream is closed.
	open func(ctx context.Context, v values) (run func(*stream), err error)
}

// Parse reads a workload: SHAPE or SHAPE{key=value,...}. Errors are *Error and
// list the valid names.
func Parse(text string) (Spec, error) {
	s, given, err := parse(text)
	if err != nil {
		return Spec{}, &Error{text, err.Error(), err}
	}
	v, err := s.complete(given)
	if err != nil {
		return Spec{}, &Error{text, err.Error(), err}
	}
	return Spec{s, v}, nil
}

// parse splits the text and reads the values that are given.
func parse(text string) (*shape, values, error) {
	name, rest, braces := strings.Cut(strings.TrimSpace(text), "{")
	s := find(strings.TrimSpace(name))
	if s == nil {
		return nil, nil, fmt.Errorf("unknown shape %q; valid are %s", strings.TrimSpace(name), strings.Join(Names(), ", "))
	}
	if !braces {
		return s, values{}, nil
	}
	list, after, closed := strings.Cut(rest, "}")
	if !closed {
		return nil, nil, fmt.Errorf("the closing } is missing")
	}
	if after != "" {
		return nil, nil, fmt.Errorf("unexpected %q after }", after)
	}
	given := values{}
	if strings.TrimSpace(list) == "" {
		return s, given, nil
	}
	for pair := range strings.SplitSeq(list, ",") {
		if err := s.give(given, pair); err != nil {
			return nil, nil, err
		}
	}
	return s, given, nil
}

// give reads one key=value.
func (s *shape) give(given values, pair string) error {
	key, text, ok := strings.Cut(pair, "=")
	key, text = strings.TrimSpace(key), strings.TrimSpace(text)
	if !ok || key == "" || text == "" {
		return fmt.Errorf("%q is not key=value", strings.TrimSpace(pair))
	}
	p := s.param(key)
	if p == nil {
		return fmt.Errorf("%s has no parameter %q; valid are %s", s.name, key, strings.Join(s.keys(), ", "))
	}
	if given.has(key) {
		return fmt.Errorf("%s is given twice", key)
	}
	v, err := p.parse(text)
	given[key] = v
	return err
}

// complete fills defaults in, derives what follows from other parameters and
// checks the result.
func (s *shape) complete(given values) (values, error) {
	for _, p := range s.params {
		if p.Sets == "" || !given.has(p.Name) {
			continue
		}
		for target := range strings.SplitSeq(p.Sets, "+") {
			if given.has(target) {
				return nil, fmt.Errorf("%s and %s say the same thing twice", p.Name, target)
			}
		}
	}
	v := values{}
	for i := range s.params {
		p := &s.params[i]
		if known, ok := given[p.Name]; ok {
			v[p.Name] = known
		} else if p.Default != "" {
			def, err := p.parse(p.Default)
			if err != nil {
				return nil, fmt.Errorf("default of %w", err)
			}
			v[p.Name] = def
		}
	}
	if size := v.uint("page-size"); bits.OnesCount64(size) != 1 {
		return nil, fmt.Errorf("page-size=%d is not a power of two", size)
	}
	if err := s.derive(v); err != nil {
		return nil, err
	}
	return v, s.settle(v)
}

// settle drops what is not canonical and checks derived values.
func (s *shape) settle(v values) error {
	for i := range s.params {
		p := &s.params[i]
		if p.Sets != "" {
			delete(v, p.Name)
		} else if err := p.check(v[p.Name]); err != nil {
			return err
		}
	}
	return nil
}

// canonical writes every parameter in order.
func (s *shape) canonical(v values) string {
	var b strings.Builder
	b.WriteString(s.name)
	separator := byte('{')
	for i := range s.params {
		if p := &s.params[i]; p.Sets == "" {
			b.WriteByte(separator)
			b.WriteString(p.Name + "=" + p.format(v[p.Name]))
			separator = ','
		}
	}
	b.WriteByte('}')
	return b.String()
}

func (s *shape) param(name string) *Param {
	for i := range s.params {
		if s.params[i].Name == name {
			return &s.params[i]
		}
	}
	return nil
}

func (s *shape) keys() []string {
	keys := make([]string, len(s.params))
	for i := range s.params {
		keys[i] = s.params[i].Name
	}
	return keys
}

// pagesFromBytes derives pages, rounded up, from a total size.
func pagesFromBytes(v values) error {
	if v.has("bytes") {
		size := v.uint("page-size")
		v.set("pages", (v.uint("bytes")+size-1)/size)
	}
	return nil
}
