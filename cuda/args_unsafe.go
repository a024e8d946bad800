package cuda

import (
	"reflect"
	"unsafe"
)

// valueBytes is the memory of a value whose layout is C's, too: fixedSize has
// checked it.
func valueBytes(v reflect.Value) []byte {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return unsafe.Slice((*byte)(p.UnsafePointer()), v.Type().Size())
}
