//go:build linux

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// kernelOf gives a kernel and a stream over a script.
func kernelOf(t *testing.T) (*script, *Context, *Function, *Stream) {
	s := newScript(t)
	c := s.open()
	return s, c, must(must(c.LoadModule([]byte("ptx")))(t).Function("f"))(t), must(c.NewStream())(t)
}

// pointed is what the first parameters of a launch are, n bytes each.
func pointed(params uintptr, n ...int) (all [][]byte) {
	for i, size := range n {
		p := at[[64]uintptr](params)[i]
		all = append(all, bytes.Clone(unsafe.Slice(at[byte](p), size)))
	}
	return all
}

func TestLaunchArguments(t *testing.T) {
	s, _, k, stream := kernelOf(t)
	params := []byte{1, 2, 3, 4, 5}
	var got []uintptr
	var values string
	s.answer(SymLaunchKernel, func(a []uintptr) Result {
		got, values = slices.Clone(a), ""
		values = fmt.Sprint(pointed(a[9], 2, 1, 32))
		got[9] = 0
		return Success
	})
	err := k.Launch(stream, LaunchConfig{Grid: Dim{X: 5, Y: 6}, Block: D1(32), SharedBytes: 48}, params, 0, 4)
	want := []uintptr{k.handle, 5, 6, 1, 32, 1, 1, 48, stream.handle, 0, 0}
	// One that the caller has left out reads as nothing, rather than from anywhere.
	if err != nil || !slices.Equal(got, want) || values != fmt.Sprint([][]byte{{1, 2}, {5}, make([]byte, 32)}) {
		t.Errorf("%v, arguments %x, parameters %s", err, got, values)
	}
	want = []uintptr{k.handle, 1, 1, 1, 1, 1, 1, 0, stream.handle, 0, 0}
	if err := k.Launch(stream, LaunchConfig{}, nil); err != nil || !slices.Equal(got, want) {
		t.Errorf("without sizes and parameters: %v, %x", err, got)
	}
	for _, row := range []struct {
		offsets []uint16
		want    string
	}{{nil, "without offsets"}, {[]uint16{0, 5}, "parameter 1 of kernel f starts at byte 5 of 5"}} {
		if err := k.Launch(stream, LaunchConfig{}, params, row.offsets...); !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("offsets %v: %v", row.offsets, err)
		}
	}
	s.fail(SymLaunchKernel, LaunchOutOfResources)
	err = k.Launch(stream, LaunchConfig{Block: D1(2048)}, nil)
	if !errors.Is(err, LaunchOutOfResources) || !strings.Contains(err.Error(), "kernel f") || !strings.Contains(err.Error(), "2048") {
		t.Errorf("a launch that fails: %v", err)
	}
}

// TestLaunchChecksParameters: against what the driver tells of the kernel.
func TestLaunchChecksParameters(t *testing.T) {
	s := newScript(t)
	s.missing[SymFuncGetParamInfo] = false
	sizes := []uint64{8, 64}
	s.answer(SymFuncGetParamInfo, func(a []uintptr) Result {
		if a[0] != 0xf0 || a[1] >= uintptr(len(sizes)) {
			return InvalidValue
		}
		*at[uint64](a[2]), *at[uint64](a[3]) = 48, sizes[a[1]]
		return Success
	})
	c := s.open()
	k, stream := must(must(c.LoadModule([]byte("ptx")))(t).Function("f"))(t), must(c.NewStream())(t)
	for _, row := range []struct {
		bytes   int
		offsets []uint16
		want    string
	}{
		{72, []uint16{0, 8}, ""}, {72, []uint16{0}, ""}, {0, nil, ""},
		{73, []uint16{0, 8, 72}, "3 parameters for kernel f, which has 2"}, {7, []uint16{0}, "parameter 0 of kernel f has 8 bytes, of which there are 7"}, {71, []uint16{0, 8}, "parameter 1 of kernel f has 64 bytes, of which there are 63"},
		{68, []uint16{0, 4}, "parameter 0 of kernel f has 8 bytes, of which there are 4"},
		{72, []uint16{64, 0}, ""}, {72, []uint16{64, 8}, "parameter 1 of kernel f has 64 bytes, of which there are 56"},
		{64, []uint16{0, 0}, ""}, // both read the same
	} {
		err := k.Launch(stream, LaunchConfig{}, make([]byte, row.bytes), row.offsets...)
		if row.want == "" && err != nil || row.want != "" && (!errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%d bytes, offsets %v: %v, want %q", row.bytes, row.offsets, err, row.want)
		}
	}
	if err := k.LaunchArgs(stream, LaunchConfig{Cooperative: true}, uint64(1), [16]float32{}); err != nil {
		t.Error(err)
	}
	// Padding is no part of a value.
	for _, row := range []struct {
		args []any
		want string
	}{{[]any{uint32(1), [8]uint64{}}, "parameter 0 of kernel f has 8 bytes, of which there are 4"}, {[]any{uint64(1), [4]uint64{}}, "parameter 1 of kernel f has 64 bytes, of which there are 32"}} {
		if err := k.LaunchArgs(stream, LaunchConfig{}, row.args...); !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: %v, want %q", row.args, err, row.want)
		}
	}
	if n := s.count(SymLaunchKernel) + s.count(SymLaunchCooperativeKernel); n != 6 {
		t.Errorf("%d launches, want 6", n)
	}
}

func TestCooperativeLaunch(t *testing.T) {
	s, _, k, stream := kernelOf(t)
	cfg := LaunchConfig{Grid: D1(2), Block: D1(64), Cooperative: true}
	var values string
	var n int
	s.answer(SymLaunchCooperativeKernel, func(a []uintptr) Result {
		n = len(a)
		p := at[[3]uintptr](a[9])
		values = fmt.Sprintf("%x %x %x", *at[uint8](p[0]), *at[uint64](p[1]), *at[uint32](p[2]))
		return Success
	})
	if err := k.LaunchArgs(stream, cfg, uint8(0x12), Ptr(0x3456), uint32(0x789)); err != nil || n != 10 || values != "12 3456 789" {
		t.Errorf("%v, %d arguments, parameters %s", err, n, values)
	}
	s.answer(SymLaunchCooperativeKernel, func(a []uintptr) Result {
		for i := range uintptr(maxParameters) { // what is left out is nothing, and not what a launch before has left
			n += int(**at[*uint8](a[9] + 8*i))
		}
		return Success
	})
	n = 0
	if err := k.LaunchArgs(stream, cfg); err != nil || n != 0 {
		t.Errorf("without parameters: %v, %#x", err, n)
	}
}

func TestLaunchInAnotherContext(t *testing.T) {
	s, c, k, _ := kernelOf(t)
	other := must(must(c.driver.Device("1"))(t).Retain())(t)
	stream := must(other.NewStream())(t)
	if err := k.Launch(stream, LaunchConfig{}, nil); !errors.Is(err, InvalidValue) || s.count(SymLaunchKernel) != 0 {
		t.Errorf("the error is %v", err)
	}
	share := must(must(c.device.Retain())(t).NewStream())(t)
	if err := k.Launch(share, LaunchConfig{}, nil); err != nil {
		t.Errorf("in another share of the context: %v", err)
	}
}

// cPoint has padding in C as in Go.
type cPoint struct {
	A uint8
	B uint64
	C [3]float32
}

func TestPackedParameters(t *testing.T) {
	s, c, k, stream := kernelOf(t)
	memory := must(c.Alloc(100))(t)
	host := must(c.RegisterHost(make([]byte, 100), 0))(t)
	var got []byte
	var size int
	s.answer(SymLaunchKernel, func(a []uintptr) Result {
		got = pointed(a[9], size)[0] // the first one starts the block
		return Success
	})
	le := binary.LittleEndian
	for _, row := range []struct {
		name string
		args []any
		want []byte
	}{
		{"natural alignment", []any{uint8(1), uint16(2), uint8(3), uint32(4), uint8(5), uint64(6)},
			[]byte{1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0}},
		{"signs", []any{int8(-1), int16(-2), int32(-3), int64(-4)},
			[]byte{255, 0, 254, 255, 253, 255, 255, 255, 252, 255, 255, 255, 255, 255, 255, 255}},
		{"floats", []any{float32(1), float64(1)}, []byte{0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 240, 63}},
		{"addresses", []any{Ptr(0x1234), memory, host},
			le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, 0x1234), uint64(memory.Ptr())), uint64(host.DevicePtr()))},
		{"bool and uintptr", []any{true, false, uintptr(7)}, []byte{1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}},
		{"struct", []any{uint8(9), cPoint{A: 1, B: 2, C: [3]float32{0, 0, 1}}}, append([]byte{9, 0, 0, 0, 0, 0, 0, 0,
			1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63}, 0, 0, 0, 0)},
		{"array", []any{[3]uint16{1, 2, 3}, uint8(4)}, []byte{1, 0, 2, 0, 3, 0, 4}},
	} {
		size = len(row.want)
		if err := k.LaunchArgs(stream, LaunchConfig{}, row.args...); err != nil || !bytes.Equal(got, row.want) {
			t.Errorf("%s: %v\n got %v\nwant %v", row.name, err, got, row.want)
		}
	}
}

func TestArgumentsThatCannotBePassed(t *testing.T) {
	s, c, k, stream := kernelOf(t)
	portable := must(c.AllocHost(10, Portable))(t)
	freed := must(c.Alloc(10))(t)
	_ = freed.Free()
	for _, row := range []struct {
		arg  any
		want string
	}{
		{5, "int32 or int64"}, {uint(5), "uint32 or uint64"}, {"text", "string"}, {nil, "Ptr(0)"},
		{[]byte{1}, "[]uint8"}, {&row0, "*int32"}, {struct{}{}, "empty"}, {[2]int{}, "int32"},
		{struct{ N int }{}, "field N"}, {complex64(1), "complex64"}, {map[int]int{}, "map"},
		{(*DeviceMemory)(nil), "nil"}, {portable, "Mapped"}, {freed, "already closed"},
	} {
		err := k.LaunchArgs(stream, LaunchConfig{}, Ptr(1), row.arg)
		if !errors.Is(err, InvalidValue) || !strings.Contains(err.Error(), "argument 1 of kernel f") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%T: %v", row.arg, err)
		}
	}
	if err := k.LaunchArgs(stream, LaunchConfig{}, freed); !errors.Is(err, ErrClosed) {
		t.Errorf("freed memory: %v", err)
	}
	if s.count(SymLaunchKernel) != 0 {
		t.Error("a kernel was launched")
	}
}

var row0 int32

func TestModules(t *testing.T) {
	s := newScript(t)
	c := s.open()
	var image, log string
	var result Result
	s.answer(SymModuleLoadDataEx, func(a []uintptr) Result {
		image = cString(at[byte](a[1]))
		options, values := at[[4]int32](a[3]), at[[4]uintptr](a[4])
		if a[2] != 4 || *options != [4]int32{3, 4, 5, 6} || values[1] != jitLogBytes || values[3] != jitLogBytes {
			t.Errorf("%d options %v, values %x", a[2], options, values)
		}
		copy(unsafe.Slice(at[byte](values[2]), jitLogBytes), log)
		*at[uintptr](a[0]) = 0x600
		s.owner[0x600] = c.handle
		return result
	})
	for _, in := range []string{".version 6.3", ".version 6.3\x00"} {
		must(c.LoadModule([]byte(in)))(t)
		if image != ".version 6.3" {
			t.Errorf("%q reached the driver as %q", in, image)
		}
	}
	spare := []byte("ptxX")
	must(c.LoadModule(spare[:3]))(t)
	if image != "ptx" || string(spare) != "ptxX" {
		t.Errorf("an image within a larger slice: %q, the slice is now %q", image, spare)
	}
	result, log = InvalidPTX, "ptxas fatal: line 3\nmore\n"
	_, err := c.LoadModule([]byte("bad"))
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, InvalidPTX) || e.Log != log || !strings.Contains(err.Error(), "ptxas fatal: line 3") ||
		strings.Contains(err.Error(), "more") || !strings.Contains(fmt.Sprintf("%+v", err), "\nmore") {
		t.Errorf("invalid PTX: %+v", err)
	}
	if _, err := c.LoadModule(nil); !errors.Is(err, InvalidValue) {
		t.Errorf("an empty image: %v", err)
	}
}

func TestModuleNames(t *testing.T) {
	s, _, k, _ := kernelOf(t)
	m := k.module
	if k.Name() != "f" {
		t.Errorf("the kernel is called %q", k.Name())
	}
	var name string
	s.answer(SymModuleGetGlobal, func(a []uintptr) Result {
		name = cString(at[byte](a[3]))
		*at[uint64](a[0]), *at[uint64](a[1]) = 0x900, 16
		return Success
	})
	if p, n, err := m.Global("table"); p != 0x900 || n != 16 || err != nil || name != "table" {
		t.Errorf("global %q at %s, %d bytes, %v", name, p, n, err)
	}
	s.fail(SymModuleGetFunction, NotFound)
	s.fail(SymModuleGetGlobal, NotFound)
	for what, err := range map[string]error{"kernel g": second(m.Function("g")), "global g": func() error { _, _, err := m.Global("g"); return err }()} {
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	calls := s.count(SymModuleGetFunction)
	for _, bad := range []string{"", "a\x00b"} {
		if _, err := m.Function(bad); !errors.Is(err, InvalidValue) || s.count(SymModuleGetFunction) != calls {
			t.Errorf("name %q: %v", bad, err)
		}
	}
}

func TestFunctionAttributes(t *testing.T) {
	s, _, k, _ := kernelOf(t)
	s.answer(SymFuncGetAttribute, func(a []uintptr) Result { *at[int32](a[0]) = int32(a[1]) + 100; return Success })
	if n, err := k.Attribute(FunctionRegisters); n != 104 || err != nil {
		t.Errorf("registers %d, %v", n, err)
	}
	s.answer(SymOccupancyMaxActiveBlocks, func(a []uintptr) Result { *at[int32](a[0]) = int32(a[2] + a[3]); return Success })
	if n, err := k.MaxActiveBlocks(32, 7); n != 39 || err != nil {
		t.Errorf("blocks %d, %v", n, err)
	}
	var got []uintptr
	s.answer(SymFuncSetAttribute, func(a []uintptr) Result { got = slices.Clone(a); return Success })
	if err := k.SetMaxDynamicShared(1000); err != nil || !slices.Equal(got, []uintptr{k.handle, 8, 1000}) {
		t.Errorf("%v, arguments %x", err, got)
	}
}
