// Package yamlfile decodes the project's YAML files strictly: one document, no unknown or double
// fields, and whole numbers where the program counts. The decoder beneath would make 4 of 4.7 there.
package yamlfile

import (
	"bytes"
	"encoding"
	"errors"
	"io"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// ErrMore is a file with more than one document.
var ErrMore = errors.New("more than one YAML document")

// Decode decodes the one document of a file into what v points to. Of a file without one the error
// is io.EOF, and of one with more ErrMore; others are yaml.Error, which know their place.
func Decode(data []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(v); err != nil {
		return err
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return ErrMore
	}
	// Only now: what else is wrong is said as the decoder says it.
	return yaml.Unmarshal(data, reflect.New(asked(reflect.TypeOf(v).Elem(), 0)).Interface())
}

// whole stands for a number of an integer type, which it does not keep. It has no kind that
// the decoder would convert to, so that it sees aliases too.
type whole struct{}

// UnmarshalYAML refuses what the decoder would cut: what is no number at all it has refused itself.
func (*whole) UnmarshalYAML(n ast.Node) error {
	if tag, ok := n.(*ast.TagNode); ok {
		n = tag.Value
	}
	v := 0.0
	switch x := n.(type) {
	case *ast.FloatNode:
		v = x.Value
	case *ast.InfinityNode:
		v = x.Value
	case *ast.StringNode: // which is decoded as a number where it looks like one
		v = number(x.Value)
	case *ast.LiteralNode:
		v = number(x.Value.Value)
	}
	const exact = 1 << 53 // beyond it not every whole number is a float64
	if v != math.Trunc(v) || math.Abs(v) > exact {
		return &yaml.SyntaxError{Message: "here must be a whole number", Token: n.GetToken()}
	}
	return nil
}

// number is a text's float64. Of digits alone, however many, it is whole.
func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v
}

// deepest bounds the nesting of types, of which one may hold itself.
const deepest = 32

// asked is a type like t with whole in place of the integer types, but for those that read
// themselves.
func asked(t reflect.Type, depth int) reflect.Type {
	if depth > deepest || t == reflect.TypeFor[time.Duration]() || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return t
	}
	depth++
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return reflect.TypeFor[whole]()
	case reflect.Pointer:
		return reflect.PointerTo(asked(t.Elem(), depth))
	case reflect.Slice:
		return reflect.SliceOf(asked(t.Elem(), depth))
	case reflect.Array:
		return reflect.ArrayOf(t.Len(), asked(t.Elem(), depth))
	case reflect.Map:
		return reflect.MapOf(t.Key(), asked(t.Elem(), depth))
	case reflect.Struct:
		var fields []reflect.StructField
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				fields = append(fields, reflect.StructField{Name: f.Name, Type: asked(f.Type, depth), Tag: f.Tag})
			}
		}
		return reflect.StructOf(fields)
	}
	return t
}
