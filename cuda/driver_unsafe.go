package cuda

import "unsafe"

// call calls a function that needs no context.
//
// The directive keeps what a pointer argument names alive and in place until
// call returns, provided that the conversion to uintptr is written in the
// argument list.
//
//go:uintptrescapes
func (d *Driver) call(s Symbol, args ...uintptr) error {
	if !d.has[s] {
		return &MissingSymbolError{Symbol: s, Have: d.version}
	}
	return d.check(s, d.backend.Call(s, args))
}

func (d *Driver) readVersion() (Version, error) {
	var v int32
	if err := d.call(SymDriverGetVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return 0, err
	}
	return Version(v), nil
}

// resultString calls one of the two functions that describe a result; ""
// where it knows nothing. It never builds an Error, which would call it again.
func (d *Driver) resultString(s Symbol, r Result) string {
	if !d.has[s] {
		return ""
	}
	out := new(*byte)
	args := []uintptr{uintptr(r), uintptr(unsafe.Pointer(out))}
	if d.backend.Call(s, args) != Success || *out == nil {
		return ""
	}
	return cString(*out)
}

// maxCString bounds how far cString looks for the end.
const maxCString = 4096

// cString copies a C string that the driver owns.
func cString(p *byte) string {
	n := 0
	for n < maxCString && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
