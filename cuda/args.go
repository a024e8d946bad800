package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
)

// pack writes arguments into f.packed as a kernel's parameter block, each at
// its natural alignment, and where they start and end into f.offsets and f.ends.
func (f *frame) pack(k *Function, args []any) error {
	f.packed, f.offsets, f.ends = f.packed[:0], f.offsets[:0], f.ends[:0]
	for i, arg := range args {
		if err := f.packOne(arg); err != nil {
			e := refused("cuda.Function.LaunchArgs", "", "argument %d of %s", i, k)
			e.cause = err
			return e
		}
		f.ends = append(f.ends, len(f.packed))
	}
	return nil
}

// packOne appends one argument. The common types come first, since
// reflection allocates.
func (f *frame) packOne(arg any) error {
	switch v := arg.(type) {
	case Ptr:
		f.pack64(uint64(v))
	case uint64:
		f.pack64(v)
	case int64:
		f.pack64(uint64(v))
	case float64:
		f.pack64(math.Float64bits(v))
	case uint32:
		f.pack32(v)
	case int32:
		f.pack32(uint32(v))
	case float32:
		f.pack32(math.Float32bits(v))
	default:
		return f.packOther(arg)
	}
	return nil
}

func (f *frame) pack64(v uint64) {
	f.start(8)
	f.packed = binary.NativeEndian.AppendUint64(f.packed, v)
}

func (f *frame) pack32(v uint32) {
	f.start(4)
	f.packed = binary.NativeEndian.AppendUint32(f.packed, v)
}

// start begins an argument at the next multiple of align.
func (f *frame) start(align int) {
	for len(f.packed)%align != 0 {
		f.packed = append(f.packed, 0)
	}
	f.offsets = append(f.offsets, len(f.packed))
}

// packOther appends memory, as its address, or a value of any fixed size.
func (f *frame) packOther(arg any) error {
	var p Ptr
	var err error
	switch v := arg.(type) {
	case *DeviceMemory:
		p, err = address(v != nil, func() (*object, Ptr) { return &v.object, v.Ptr() })
	case *HostMemory:
		p, err = address(v != nil, func() (*object, Ptr) { return &v.object, v.DevicePtr() })
	case *Registration:
		p, err = address(v != nil, func() (*object, Ptr) { return &v.object, v.DevicePtr() })
	default:
		return f.packValue(arg)
	}
	if err != nil {
		return err
	}
	f.pack64(uint64(p))
	return nil
}

// address is the device address of memory that is open and has one.
func address(set bool, get func() (*object, Ptr)) (Ptr, error) {
	if !set {
		return 0, fmt.Errorf("a nil pointer: pass Ptr(0) for no memory")
	}
	o, p := get()
	if err := o.acquire("cuda.Function.LaunchArgs"); err != nil {
		return 0, err
	}
	o.release()
	if p == 0 {
		return 0, fmt.Errorf("the %s has no device address: pin it with Mapped", o.kind)
	}
	return p, nil
}

// packValue appends a value of fixed size by reflection.
func (f *frame) packValue(arg any) error {
	if arg == nil {
		return fmt.Errorf("nil has no size: pass Ptr(0) for no memory")
	}
	v := reflect.ValueOf(arg)
	if err := fixedSize(v.Type()); err != nil {
		return err
	}
	if v.Type().Size() == 0 {
		return fmt.Errorf("%s is empty: C has no parameter without size", v.Type())
	}
	f.start(v.Type().Align())
	f.packed = append(f.packed, valueBytes(v)...)
	return nil
}

// fixedSize says why a type does not have the same layout in C.
func fixedSize(t reflect.Type) error {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return nil
	case reflect.Int, reflect.Uint:
		return fmt.Errorf("%s has no fixed size in C: use %[1]s32 or %[1]s64", t)
	case reflect.Array:
		return fixedSize(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if err := fixedSize(t.Field(i).Type); err != nil {
				return fmt.Errorf("field %s of %s: %w", t.Field(i).Name, t, err)
			}
		}
		return nil
	}
	return fmt.Errorf("a %s cannot be passed to a kernel", t)
}
