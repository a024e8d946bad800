package cudafake

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
)

const ptxHead = ".version 6.3\n.target sm_70\n.address_size 64\n"

// TestParameterLayout reads the parameters of kernels as compilers write them.
func TestParameterLayout(t *testing.T) {
	for _, row := range []struct {
		params  string
		offsets []uint64
		bytes   uint64
	}{
		{"", nil, 0},
		{".param .u64 a", []uint64{0}, 8},
		{".param .u64 a, .param .u32 b", []uint64{0, 8}, 12},
		{".param .u32 a, .param .u64 b, .param .u8 c", []uint64{0, 8, 16}, 17},
		{".param .u8 a, .param .u16 b, .param .f32 c, .param .f64 d", []uint64{0, 2, 4, 8}, 16},
		{".param .u64 .ptr .global .align 16 a, .param .u32 b", []uint64{0, 8}, 12},
		{".param .u64 .ptr .align 1 k_param_0", []uint64{0}, 8},
		{".param .u32 a, .param .align 8 .b8 s[24], .param .u8 c", []uint64{0, 8, 32}, 33},
		{".param .align 16 .b8 s[2][8]", []uint64{0}, 16},
		{".param .u32 a, .param .align 64 .b8 s[64], .param .u64 b", []uint64{0, 48, 112}, 120},
	} {
		p, err := parsePTX(ptxHead + ".visible .entry k(" + row.params + ") { ret; }")
		if err != nil {
			t.Errorf("%s: %v", row.params, err)
			continue
		}
		k := p.kernels["k"]
		if k == nil || len(k.params) != len(row.offsets) || k.paramBytes() != row.bytes {
			t.Errorf("%s: read %+v", row.params, k)
			continue
		}
		for i, v := range k.params {
			if v.offset != row.offsets[i] {
				t.Errorf("%s: parameter %d at %d, want %d", row.params, i, v.offset, row.offsets[i])
			}
		}
	}
}

// TestGlobals reads the initial values of globals.
func TestGlobals(t *testing.T) {
	le := binary.LittleEndian
	for _, row := range []struct {
		decl    string
		size    uint64
		init    []byte
		unknown bool
	}{
		{".visible .global .align 4 .u32 g;", 4, nil, false},
		{".global .align 4 .u32 g = 7;", 4, le.AppendUint32(nil, 7), false},
		{".global .u16 g[4] = {1, 0x203, -1};", 8, []byte{1, 0, 3, 2, 255, 255}, false},
		{".global .align 1 .b8 g[2][2] = {{1, 2}, {3, 4}};", 4, []byte{1, 2, 3, 4}, false},
		{".global .f32 g = 0f3F800000;", 4, []byte{0, 0, 0x80, 0x3f}, false},
		{".global .f64 g = 0d3FF0000000000000;", 8, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, false},
		{".global .v4 .u32 g;", 16, nil, false},
		{".global .u64 g = generic(other);", 8, nil, true},
	} {
		p, err := parsePTX(ptxHead + row.decl)
		if err != nil || len(p.globals) != 1 {
			t.Errorf("%s: %v", row.decl, err)
			continue
		}
		if v := p.globals[0]; v.name != "g" || v.size != row.size || v.unknown != row.unknown || !row.unknown && !bytes.Equal(v.init, row.init) {
			t.Errorf("%s: read %+v", row.decl, v)
		}
	}
}

// TestKernelProperties reads limits and shared memory, inside and outside.
func TestKernelProperties(t *testing.T) {
	p, err := parsePTX(ptxHead + `
.extern .func (.param .b32 r) vprintf(.param .b64 a) ;
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 outside[100];
.func (.param .b32 r) helper(.param .b32 x) { .reg .b32 %r<2>; { ret; } }
/* a comment { */
.visible .entry a() .maxntid 8, 4, 2 .minnctapersm 2 { // }
	.shared .align 8 .b8 own[12];
	{ mov.u64 %rd1, outside; st.shared.u32 [outside], %r1; }
}
.weak .entry b(.param .u32 x) .reqntid 32 { ret; }
.visible .entry c();
.section .debug_str
{
.b8 1, 2, "}"
}
`)
	if err != nil {
		t.Fatal(err)
	}
	a, b := p.kernels["a"], p.kernels["b"]
	if a == nil || b == nil || p.kernels["c"] == nil || a.maxThreads != 64 || b.maxThreads != 32 || a.shared != 112 || b.shared != 0 {
		t.Errorf("read %+v and %+v", a, b)
	}
}

// TestCommittedPTX reads what the compiler made of the kernels here.
func TestCommittedPTX(t *testing.T) {
	files, err := filepath.Glob("../device/selftest/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX found: %v", err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, perr := parsePTX(string(src))
		if perr != nil {
			t.Errorf("%s: %v", f, perr)
			continue
		}
		if want := strings.Count(string(src), ".visible .entry"); len(p.kernels) != want || want == 0 {
			t.Errorf("%s: %d kernels read, it has %d", f, len(p.kernels), want)
		}
	}
}

// load loads a text and gives the result and the error log.
func (r *raw) load(src string, room int) (cuda.Result, string, uintptr) {
	image, log := append([]byte(src), 0), make([]byte, room)
	options := make([]byte, 8)
	put32(addr(options), jitErrorLogSize)
	put32(addr(options)+4, jitErrorLog)
	values := words(uintptr(room), addr(log))
	m := newCell()
	got := r.call(cuda.SymModuleLoadDataEx, m.at(), addr(image), 2, addr(options), addr(values))
	text, _, _ := strings.Cut(string(log), "\x00")
	if used := get64(addr(values)); got != cuda.Success && used != uint64(len(text)+1) {
		r.Errorf("the log is said to take %d bytes, it has %d and a NUL", used, len(text))
	}
	return got, text, uintptr(m.u64())
}

// TestLoadErrors checks result and log of images that no driver takes.
func TestLoadErrors(t *testing.T) {
	r := newRaw(t)
	for _, row := range []struct {
		src  string
		want cuda.Result
		log  string
	}{
		{"hello", cuda.InvalidImage, "no PTX"},
		{"", cuda.InvalidImage, "no PTX"},
		{"\x7fELF.version", cuda.NoBinaryForGPU, "cubin"},
		{".version 6.3\n", cuda.InvalidPTX, "no .target"},
		{ptxHead + "\nbogus;", cuda.InvalidPTX, "line 5; error: 'bogus'"},
		{ptxHead + ".visible .entry k(.param .u64 a) { ret;", cuda.InvalidPTX, "unexpected end"},
		{ptxHead + ".visible .entry k(.u64 a) { }", cuda.InvalidPTX, "expected '.param', found '.u64'"},
		{ptxHead + ".visible .entry k() { } .visible .entry k() { }", cuda.InvalidPTX, "twice"},
		{ptxHead + ".global .align 3 .u32 g;", cuda.InvalidPTX, "power of two"},
		{ptxHead + ".global .u32 g[2] = {1,2,3};", cuda.InvalidPTX, "too many values"},
		{ptxHead + ".global .u64 g[99999999999];", cuda.InvalidPTX, "too large"},
		{ptxHead + ".global g;", cuda.InvalidPTX, "without a type"},
		{ptxHead + "/* ", cuda.InvalidPTX, "comment without end"},
		{".version 8.6\n.target sm_100\n", cuda.InvalidPTX, "sm_100 is above the device's sm_90"},
		{".version 99.0\n.target sm_70\n", cuda.UnsupportedPTXVersion, "99.0"},
	} {
		got, log, _ := r.load(row.src, 200)
		if got != row.want || !strings.Contains(log, row.log) {
			t.Errorf("%q: %d with log %q, want %d with %q", row.src, got, log, row.want, row.log)
		}
	}
	if got, log, _ := r.load("hello", 8); got != cuda.InvalidImage || len(log) != 7 {
		t.Errorf("log %q in 8 bytes of room", log)
	}
}

// TestModuleObjects looks up kernels and globals, there and not.
func TestModuleObjects(t *testing.T) {
	r := newRaw(t)
	got, _, m := r.load(ptxHead+".global .u32 g[2] = {5}; .global .u64 p = generic(g); .visible .entry k(.param .u64 a) { ret; }", 100)
	if got != cuda.Success {
		t.Fatal(got)
	}
	name := func(s string) uintptr { return addr(append([]byte(s), 0)) }
	f := r.out(cuda.SymModuleGetFunction, m, name("k"))
	if again := r.out(cuda.SymModuleGetFunction, m, name("k")); again != f {
		t.Error("a function has two handles")
	}
	r.is(cuda.NotFound, cuda.SymModuleGetFunction, newCell().at(), m, name("nope"))
	size := newCell()
	g := r.out(cuda.SymModuleGetGlobal, size.at(), m, name("g"))
	if size.u64() != 8 || !bytes.Equal(view(g, 8), []byte{5, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("global of %d bytes: %v", size.u64(), view(g, 8))
	}
	r.ok(cuda.SymModuleGetGlobal, 0, size.at(), m, name("g"))
	r.is(cuda.NotFound, cuda.SymModuleGetGlobal, 0, 0, m, name("nope"))
	r.clean()
	r.is(cuda.NotSupported, cuda.SymModuleGetGlobal, 0, 0, m, name("p"))
	r.violates("an initial value that is an address")
	r.ok(cuda.SymModuleUnload, m)
	r.is(cuda.InvalidHandle, cuda.SymModuleGetFunction, newCell().at(), m, name("k"))
	r.violates("a stale module")
	r.is(cuda.InvalidHandle, cuda.SymFuncGetAttribute, newCell().at(), 0, f)
	r.violates("a stale function")
}

// FuzzParsePTX feeds the parser anything: it must end, without a panic.
func FuzzParsePTX(f *testing.F) {
	f.Add(ptxHead + ".visible .entry k(.param .u64 .ptr .align 1 a, .param .b8 s[3]) .maxntid 3,4 { .shared .b8 x[2]; ret; }")
	f.Add(ptxHead + ".global .align 4 .u32 g[2][3] = {{1,-2},{0f3F800000}};\n.section .x { \"}\" }")
	f.Add(".version 6.3 .target sm_70, texmode // \n .extern .shared .b8 y[];")
	f.Fuzz(func(t *testing.T, src string) {
		p, err := parsePTX(src)
		if (p == nil || p.target == 0) && err == nil {
			t.Error("accepted without a target")
		}
	})
}
