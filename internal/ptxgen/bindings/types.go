package bindings

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// goType is how a parameter's type looks in Go.
type goType struct {
	size    int
	name    string // qualified, such as cuda.Ptr or copyeng.Batch
	imports string // the import path that the name needs, or ""
	put     string // the statement that stores %[2]s at params[%[1]d:], or "" for a struct
}

const (
	put8  = "params[%[1]d] = %[2]s"
	put16 = "binary.LittleEndian.PutUint16(params[%[1]d:], %[2]s)"
	put32 = "binary.LittleEndian.PutUint32(params[%[1]d:], %[2]s)"
	put64 = "binary.LittleEndian.PutUint64(params[%[1]d:], %[2]s)"

	convert8  = "params[%[1]d] = uint8(%[2]s)"
	convert16 = "binary.LittleEndian.PutUint16(params[%[1]d:], uint16(%[2]s))"
	convert32 = "binary.LittleEndian.PutUint32(params[%[1]d:], uint32(%[2]s))"
	convert64 = "binary.LittleEndian.PutUint64(params[%[1]d:], uint64(%[2]s))"
)

// scalars are the Go types that a parameter can have, and how each is stored:
// GPUs are little-endian, and so are the hosts that CUDA knows.
var scalars = map[string]goType{
	"uint8":   {1, "uint8", "", put8},
	"int8":    {1, "int8", "", convert8},
	"uint16":  {2, "uint16", "", put16},
	"int16":   {2, "int16", "", convert16},
	"uint32":  {4, "uint32", "", put32},
	"int32":   {4, "int32", "", convert32},
	"uint64":  {8, "uint64", "", put64},
	"int64":   {8, "int64", "", convert64},
	"float32": {4, "float32", "", "binary.LittleEndian.PutUint32(params[%[1]d:], math.Float32bits(%[2]s))"},
	"float64": {8, "float64", "", "binary.LittleEndian.PutUint64(params[%[1]d:], math.Float64bits(%[2]s))"},
	"bool":    {1, "bool", "", "params[%[1]d] = 0\nif %[2]s {\nparams[%[1]d] = 1\n}"},
}

// cNames are C's names of the scalars, on 64-bit Linux.
var cNames = map[string]string{
	"uint8_t": "uint8", "unsigned char": "uint8", "int8_t": "int8", "signed char": "int8", "char": "int8",
	"uint16_t": "uint16", "unsigned short": "uint16", "int16_t": "int16", "short": "int16",
	"uint32_t": "uint32", "unsigned int": "uint32", "unsigned": "uint32", "int32_t": "int32", "int": "int32",
	"uint64_t": "uint64", "unsigned long": "uint64", "unsigned long long": "uint64", "size_t": "uint64", "uintptr_t": "uint64",
	"int64_t": "int64", "long": "int64", "long long": "int64", "ptrdiff_t": "int64",
	"float": "float32", "double": "float64", "bool": "bool",
}

var pointerType = goType{8, "cuda.Ptr", "", convert64}

// resolve gives a parameter's Go type.
func resolve(p param, known map[string]typeDirective) (goType, error) {
	if p.pointer {
		return pointerType, nil
	}
	if t, ok := known[p.typ]; ok {
		return t.resolve()
	}
	if name, ok := cNames[p.typ]; ok {
		return scalars[name], nil
	}
	return goType{}, fmt.Errorf("parameter %s: type %s is not known: say which Go type it is with // ptxgen:type %s size=BYTES go=Type", p.name, p.typ, p.typ)
}

func (t typeDirective) resolve() (goType, error) {
	if s, ok := scalars[t.goType]; ok {
		if s.size != t.size {
			return goType{}, fmt.Errorf("ptxgen:type %s: go=%s has %d bytes, size= says %d", t.name, t.goType, s.size, t.size)
		}
		return s, nil
	}
	g := goType{size: t.size, name: t.goType}
	if dot := strings.LastIndexByte(t.goType, '.'); dot > strings.LastIndexByte(t.goType, '/') {
		g.imports = t.goType[:dot]
		g.name = path.Base(g.imports) + t.goType[dot:]
	}
	return g, nil
}

// camel turns a C name into a Go one: copy_pages to CopyPages.
func camel(name string) string {
	var b strings.Builder
	up := true
	for _, r := range name {
		switch {
		case r == '_':
			up = true
			continue
		case up:
			r = unicode.ToUpper(r)
		}
		up = unicode.IsDigit(r)
		b.WriteRune(r)
	}
	return b.String()
}

// lower is camel with a small first letter; a run of capitals is left alone
// but for its first (IOPrompt would be iOPrompt).
func lower(name string) string {
	s := camel(name)
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
