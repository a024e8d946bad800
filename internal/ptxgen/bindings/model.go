package bindings

import (
	"errors"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// image is one source's PTX for one target.
type image struct {
	target Target
	file   string // as committed
	text   string // header and body
}

// unit is a source with everything that was read from it and its PTX.
type unit struct {
	in     inputs
	images []image // in the order of the targets
}

// argument is a kernel's parameter in Go.
type argument struct {
	Name   string
	Type   goType
	Offset int
}

// kernel is a method to write.
type kernel struct {
	Name   string // of the kernel
	Method string
	Source string
	Module int
	Args   []argument
	Size   int
}

// model is all that the Go file says.
type model struct {
	kernels   []kernel
	constants []constant
	structs   []goType // types that are passed as structs
}

// build puts together what sources and PTX say, and refuses what disagrees.
func build(c Config, units []unit) (model, error) {
	var m model
	for i, u := range units {
		decls, known, err := u.in.declared()
		if err != nil {
			return model{}, err
		}
		p, err := u.program()
		if err != nil {
			return model{}, fmt.Errorf("%s: %w", u.in.source, err)
		}
		for _, e := range p.entries {
			k, err := bind(e, decls[e.name], known)
			if err != nil {
				return model{}, fmt.Errorf("%s: kernel %s: %w", u.in.source, e.name, err)
			}
			k.Source, k.Module = u.in.source, i
			m.kernels = append(m.kernels, k)
		}
		for _, k := range p.constants {
			if err := m.addConstant(k); err != nil {
				return model{}, fmt.Errorf("%s: %w", u.in.source, err)
			}
		}
	}
	m.collectStructs()
	return m, m.check(c)
}

// declared reads all inputs' kernels and type directives.
func (in inputs) declared() (map[string]declaration, map[string]typeDirective, error) {
	decls, known := map[string]declaration{}, map[string]typeDirective{}
	for _, f := range in.files {
		ks, err := kernels(f)
		if err != nil {
			return nil, nil, err
		}
		for _, k := range ks {
			if old, ok := decls[k.name]; ok && !slices.Equal(old.params, k.params) {
				return nil, nil, fmt.Errorf("%s: kernel %s is declared twice with different parameters", f.path, k.name)
			}
			decls[k.name] = k
		}
		ts, err := directives(f)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range ts {
			if old, ok := known[t.name]; ok && old != t {
				return nil, nil, fmt.Errorf("%s: ptxgen:type %s is given twice and differs", f.path, t.name)
			}
			known[t.name] = t
		}
	}
	return decls, known, nil
}

// program reads the PTX of all targets, which must declare the same.
func (u unit) program() (program, error) {
	var first program
	for i, img := range u.images {
		_, body, err := splitHeader(img.text)
		if err != nil {
			return program{}, fmt.Errorf("%s: %w", img.file, err)
		}
		p, err := parsePTX(body)
		if err != nil {
			return program{}, fmt.Errorf("%s: %w", img.file, err)
		}
		if i == 0 {
			first = p
		} else if fmt.Sprint(p) != fmt.Sprint(first) {
			return program{}, fmt.Errorf("%s and %s have different kernels, parameters or constants", u.images[0].file, img.file)
		}
	}
	return first, nil
}

// bind matches a kernel of the PTX with its declaration.
func bind(e entry, d declaration, known map[string]typeDirective) (kernel, error) {
	k := kernel{Name: e.name, Method: camel(e.name), Size: e.size}
	if d.name == "" {
		return k, errors.New("its declaration was not found: write it out as extern \"C\" __global__ void name(...), not by a template or a macro")
	}
	if len(d.params) != len(e.slots) {
		return k, fmt.Errorf("its declaration has %d parameters, its PTX %d", len(d.params), len(e.slots))
	}
	names := map[string]bool{}
	for i, p := range d.params {
		t, err := resolve(p, known)
		if err != nil {
			return k, err
		}
		if t.size != e.slots[i].size {
			return k, fmt.Errorf("parameter %s: type %s has %d bytes in the PTX, not %d", p.name, p.typ, e.slots[i].size, t.size)
		}
		a := argument{argName(p.name), t, e.slots[i].offset}
		if names[a.Name] {
			return k, fmt.Errorf("two parameters are called %s in Go", a.Name)
		}
		names[a.Name] = true
		k.Args = append(k.Args, a)
	}
	return k, nil
}

// taken are names that the generated methods use themselves.
var taken = []string{"k", "stream", "cfg", "params", "block", "sync", "cuda", "binary", "math", "unsafe", "errors", "fmt",
	"nil", "copy", "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64", "byte"}

func argName(c string) string {
	name := lower(c)
	if token.IsKeyword(name) || slices.Contains(taken, name) {
		name += "Arg"
	}
	return name
}

// addConstant adds a constant; several sources may export the same one, from a
// header that they share.
func (m *model) addConstant(c constant) error {
	for _, old := range m.constants {
		if old.Name == c.Name && old.Value != c.Value {
			return fmt.Errorf("constant %s is %d here and %d in another source", c.Name, c.Value, old.Value)
		}
		if old == c {
			return nil
		}
	}
	m.constants = append(m.constants, c)
	return nil
}

func (m *model) collectStructs() {
	for _, k := range m.kernels {
		for _, a := range k.Args {
			if a.Type.put == "" && !slices.Contains(m.structs, a.Type) {
				m.structs = append(m.structs, a.Type)
			}
		}
	}
}

// check refuses names that would collide in Go.
func (m *model) check(c Config) error {
	if len(m.kernels) == 0 {
		return fmt.Errorf("%s: no kernel found", strings.Join(c.Sources, ", "))
	}
	owner := map[string]string{"Close": "the method Close", "load": "the method load", "modules": "a field", "functions": "a field"}
	claim := func(name, what string) error {
		if old, ok := owner[name]; ok {
			return fmt.Errorf("%s and %s are both called %s in Go", what, old, name)
		}
		owner[name] = what
		return nil
	}
	var errs []error
	for _, k := range m.kernels {
		errs = append(errs, claim(k.Method, "kernel "+k.Name), claim(k.Method+"Function", "the function of kernel "+k.Name))
	}
	owner = map[string]string{c.Type: "the generated type", c.loader(): "the loader"}
	for _, k := range m.constants {
		errs = append(errs, claim(c.constName(k.Name), "constant "+k.Name))
	}
	return errors.Join(errs...)
}

// exported says whether the generated names are for other packages too.
func (c Config) exported() bool { return token.IsExported(c.Type) }

// constName is a constant's Go name.
func (c Config) constName(name string) string {
	if c.exported() {
		return camel(name)
	}
	return lower(name)
}

// loader is the name of the function that loads the kernels.
func (c Config) loader() string {
	if c.exported() {
		return "Load" + c.Type
	}
	return "load" + camel(c.Type)
}
