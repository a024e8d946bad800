package placement

import (
	"fmt"
	"slices"
	"strings"
)

// maxPolicyLen bounds a policy string: every parameter of every policy spelt
// out needs less than a tenth of it.
const maxPolicyLen = 4096

// Spec is a parsed policy: a placer, an evictor for each tier and the value
// of every parameter. Specs are immutable and made by Parse or LoadFile; two
// specs are the same policy exactly when their String is equal. The zero Spec
// is no policy, and Build refuses it.
type Spec struct {
	placer *placerDef
	args   []setting // in the order of placer.params
	t1, t2 evictorSpec
}

// evictorSpec is an evictor with the values of its parameters.
type evictorSpec struct {
	def  *evictorDef
	args []setting // in the order of def.params
}

// Parse reads a policy:
//
//	policy  = "@" file-name | evictor | placer
//	placer  = name [ "{" [ item { "," item } ] "}" ]
//	item    = "t1" "=" evictor | "t2" "=" evictor | key "=" value
//	evictor = name [ "(" [ key "=" value { "," key "=" value } ] ")" ]
//
// Blanks between tokens are skipped. A bare evictor E stands for
// tier-order{t1=E,t2=E}; what is not named takes its default. The one name
// that is both, random, is the evictor when bare and the placer in braces.
// "@" reads the policy from a file, see LoadFile.
//
// A policy that does not parse gives a *SyntaxError.
func Parse(s string) (Spec, error) {
	if path, ok := strings.CutPrefix(strings.TrimSpace(s), "@"); ok {
		return LoadFile(path)
	}
	return parseInline(s)
}

// parseInline is Parse without the @FILE form.
func parseInline(s string) (Spec, error) {
	p := parser{in: s}
	if len(s) > maxPolicyLen {
		return Spec{}, p.fail(maxPolicyLen, "longer than %d bytes", maxPolicyLen)
	}
	spec, err := p.policy()
	if err != nil {
		return Spec{}, err
	}
	if t := p.next(); t.kind != end {
		return Spec{}, p.fail(t.pos, "%s after the end of the policy", t)
	}
	return spec, nil
}

// String is the canonical form: fully expanded, evictors first, parameters in
// alphabetical order. Parse reads it back to the same Spec.
func (s Spec) String() string {
	if s.placer == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s{t1=%s,t2=%s", s.placer.name, s.t1, s.t2)
	for i, p := range s.placer.params {
		fmt.Fprintf(&b, ",%s=%s", p.name, s.args[i].text)
	}
	b.WriteByte('}')
	return b.String()
}

// Placer is the name of the placer.
func (s Spec) Placer() string {
	if s.placer == nil {
		return ""
	}
	return s.placer.name
}

// T1 is the canonical form of the evictor of GPU memory.
func (s Spec) T1() string { return s.t1.String() }

// T2 is the canonical form of the evictor of host memory.
func (s Spec) T2() string { return s.t2.String() }

// String is the evictor in the grammar, with every parameter.
func (e evictorSpec) String() string {
	if e.def == nil {
		return ""
	}
	if len(e.args) == 0 {
		return e.def.name
	}
	parts := make([]string, len(e.args))
	for i, p := range e.def.params {
		parts[i] = p.name + "=" + e.args[i].text
	}
	return e.def.name + "(" + strings.Join(parts, ",") + ")"
}

// parser walks a policy string once, from left to right.
type parser struct {
	in  string
	off int
}

// policy parses everything but @FILE.
func (p *parser) policy() (Spec, error) {
	name := p.next()
	if name.kind != word {
		return Spec{}, p.failValid(name.pos, policyNames(), "a policy's name is missing, found %s", name)
	}
	ev, pl := findEvictor(name.text), findPlacer(name.text)
	switch opened := p.peek(); {
	case opened.kind == '{' && pl == nil && ev != nil:
		return Spec{}, p.failValid(opened.pos, placerNames(),
			"%s is an evictor and takes no braces: write tier-order{t1=%s}; placers are", ev.name, ev.name)
	case opened.kind == '{' && pl == nil:
		return Spec{}, p.unknown(name, "placer", placerNames())
	case opened.kind == '{':
		return p.placer(pl)
	case opened.kind == '(' && ev == nil && pl != nil:
		return Spec{}, p.fail(opened.pos, "%s is a placer: its parameters go in braces", pl.name)
	case ev != nil:
		e, err := p.evictorArgs(ev)
		if err != nil {
			return Spec{}, err
		}
		order := defaultSpec(findPlacer("tier-order"))
		order.t1, order.t2 = e, e
		return order, nil
	case pl != nil:
		return defaultSpec(pl), nil
	}
	return Spec{}, p.unknown(name, "policy", policyNames())
}

// placer parses the braces behind a placer's name.
func (p *parser) placer(pl *placerDef) (Spec, error) {
	spec := defaultSpec(pl)
	keys := append([]string{"t1", "t2"}, paramNames(pl.params)...)
	err := p.list('{', '}', pl.name, keys, func(key token) error {
		switch key.text {
		case "t1":
			return p.evictor(&spec.t1)
		case "t2":
			return p.evictor(&spec.t2)
		}
		return p.value(key, pl.params, spec.args)
	})
	return spec, err
}

// evictor parses an evictor's name and parameters into e.
func (p *parser) evictor(e *evictorSpec) error {
	name := p.next()
	if name.kind != word {
		return p.failValid(name.pos, evictorNames(), "an evictor's name is missing, found %s", name)
	}
	def := findEvictor(name.text)
	if def == nil {
		return p.unknown(name, "evictor", evictorNames())
	}
	got, err := p.evictorArgs(def)
	*e = got
	return err
}

// evictorArgs parses the parentheses behind an evictor's name, if there.
func (p *parser) evictorArgs(def *evictorDef) (evictorSpec, error) {
	e := defaultEvictor(def)
	if p.peek().kind != '(' {
		return e, nil
	}
	at := p.peek().pos
	err := p.list('(', ')', def.name, paramNames(def.params), func(key token) error {
		return p.value(key, def.params, e.args)
	})
	if err == nil && def.check != nil {
		if wrong := def.check(e.args); wrong != nil {
			err = p.fail(at, "%s: %v", def.name, wrong)
		}
	}
	return e, err
}

// list parses open, key=... items separated by commas, and closing. It checks
// the keys; each parses what stands behind the equals sign.
func (p *parser) list(open, closing kind, owner string, keys []string, each func(key token) error) error {
	p.next() // the caller peeked at open
	if p.peek().kind == closing {
		p.next()
		return nil
	}
	seen := make(map[string]bool, len(keys))
	for { // bounded: every round consumes at least one byte
		key := p.next()
		switch {
		case key.kind != word:
			return p.failValid(key.pos, keys, "a key of %s is missing, found %s", owner, key)
		case !slices.Contains(keys, key.text):
			return p.unknown(key, "key of "+owner, keys)
		case seen[key.text]:
			return p.failValid(key.pos, keys, "%s is set twice", key.text)
		}
		seen[key.text] = true
		if t := p.next(); t.kind != '=' {
			return p.fail(t.pos, "%s needs =VALUE, found %s", key.text, t)
		}
		if err := each(key); err != nil {
			return err
		}
		switch t := p.next(); t.kind {
		case ',':
		case closing:
			return nil
		default:
			return p.fail(t.pos, "%c%s is not closed: want , or %c, found %s", rune(open), owner, rune(closing), t)
		}
	}
}

// value parses a parameter's value into its place in args.
func (p *parser) value(key token, params []param, args []setting) error {
	t := p.next()
	for i := range params {
		if params[i].name != key.text {
			continue
		}
		if t.kind != word {
			return p.fail(t.pos, "the value of %s is missing, found %s", key.text, t)
		}
		got, err := params[i].parse(t.text)
		if err != nil {
			return p.failValid(t.pos, params[i].words, "%s=%s: %v", key.text, t.text, err)
		}
		args[i] = got
	}
	return nil
}
