package tritier

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// arrayKey is what the store's directory says of an array. It is kept in the name
// there, "rows@f4.1a", so that an array and its description appear and go together.
type arrayKey struct {
	name    string
	element element
	length  uint64 // elements
}

// element is the kind and size of an array's elements.
type element struct {
	kind byte // f, i, u, c, b (bool) or s: anything else of fixed size
	size int  // bytes
}

// MaxArrayName bounds the length of an array's name in bytes.
const MaxArrayName = 40

var kinds = map[byte]string{'f': "float", 'i': "int", 'u': "uint", 'c': "complex", 'b': "bool", 's': "bytes"}

// String names the type as Go does: float32; or says how many bytes it has.
func (e element) String() string {
	switch e.kind {
	case 'b':
		return "bool"
	case 's':
		return fmt.Sprintf("bytes%d", e.size)
	}
	return fmt.Sprintf("%s%d", kinds[e.kind], e.size*8)
}

// String is the key as the store keeps it.
func (k arrayKey) String() string {
	return fmt.Sprintf("%s@%c%d.%s", k.name, k.element.kind, k.element.size, strconv.FormatUint(k.length, 36))
}

func parseKey(s string) (k arrayKey, err error) {
	bad := fmt.Errorf("%q is no array of a Memory", s)
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at+2 >= len(s) {
		return k, bad
	}
	size, length, ok := strings.Cut(s[at+2:], ".")
	if kinds[s[at+1]] == "" || !ok {
		return k, bad
	}
	k.name, k.element.kind = s[:at], s[at+1]
	if k.element.size, err = strconv.Atoi(size); err != nil || k.element.size < 1 {
		return k, bad
	}
	if k.length, err = strconv.ParseUint(length, 36, 64); err != nil || k.String() != s {
		return k, bad
	}
	return k, nil
}

// checkArrayName refuses names that the store cannot keep.
func checkArrayName(name string) error {
	if name == "" || len(name) > MaxArrayName {
		return fmt.Errorf("array name %q: want 1 to %d bytes", name, MaxArrayName)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || strings.ContainsRune(`@/\"'`, r) {
			return fmt.Errorf("array name %q: %q is not allowed: want printable ASCII without spaces, quotes, slashes and @", name, r)
		}
	}
	return nil
}

// elementOf describes T, which must be of fixed size and without pointers.
func elementOf[T any]() (element, error) {
	t := reflect.TypeFor[T]()
	if why := pointers(t); why != "" {
		return element{}, fmt.Errorf("elements of type %v cannot be stored: %s", t, why)
	}
	e := element{kind: 's', size: int(t.Size())}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		e.kind = 'f'
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.kind = 'i'
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.kind = 'u'
	case reflect.Complex64, reflect.Complex128:
		e.kind = 'c'
	case reflect.Bool:
		e.kind = 'b'
	case reflect.Int, reflect.Uint:
		return element{}, fmt.Errorf("elements of type %v cannot be stored: its size depends on the machine; use int64 or uint64", t)
	}
	if e.size == 0 {
		return element{}, fmt.Errorf("elements of type %v have no bytes", t)
	}
	return e, nil
}

// pointers says why values of t mean nothing in another process, or "".
func pointers(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Array:
		return pointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if why := pointers(t.Field(i).Type); why != "" {
				return "field " + t.Field(i).Name + ": " + why
			}
		}
	case reflect.Pointer, reflect.UnsafePointer, reflect.Uintptr, reflect.String, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.Interface:
		return fmt.Sprintf("a %v points to memory of this process", t.Kind())
	}
	return ""
}

func compareStrings(a, b string) int { return cmp.Compare(a, b) }
