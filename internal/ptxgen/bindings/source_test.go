package bindings

import (
	"reflect"
	"strings"
	"testing"
)

func TestKernels(t *testing.T) {
	const text = `
// extern "C" __global__ void no1(int a);
/* extern "C" __global__ void no2(int a); */
#define MAKE(name) extern "C" __global__ \
  void name(int a)
const char* s = "/* not a comment"; int n = 1'000; char c = '"';
extern "C" __global__ void plain(const uint4* __restrict__ src, uint32_t n, unsigned long long, std::size_t len) {}
extern "C" __global__ void __launch_bounds__(sizeof(int) * 64, 2) before(float a[4], const tritier::Batch batch) { call("}"); }
extern "C" {
__global__ __launch_bounds__(32) void
    after(volatile unsigned int *const p, struct Mode mode, bool on /* why, not */, ::Other o)
;
__global__ void none(void);
__global__ void empty() {}
}`
	got, err := kernels(file{"a.cu", text})
	if err != nil {
		t.Fatal(err)
	}
	want := []declaration{
		{"plain", []param{{"src", "uint4", true}, {"n", "uint32_t", false}, {"arg2", "unsigned long long", false}, {"len", "size_t", false}}},
		{"before", []param{{"a", "float", true}, {"batch", "Batch", false}}},
		{"after", []param{{"p", "unsigned int", true}, {"mode", "Mode", false}, {"on", "bool", false}, {"o", "Other", false}}},
		{"none", nil},
		{"empty", nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestKernelsRefuses(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`__global__ void k(int& a) {}`, "values and pointers only"},
		{`__global__ void k(Pair<int> a) {}`, "values and pointers only"},
		{`__global__ void k(int (*f)(int)) {}`, "values and pointers only"},
		{`__global__ int k() {}`, "write extern"},
		{`__global__ void`, "ends within"},
	} {
		if _, err := kernels(file{"a.cu", row.text}); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "a.cu") {
			t.Errorf("%s: got %v, want an error with %s", row.text, err, row.want)
		}
	}
}

func TestDirectives(t *testing.T) {
	got, err := directives(file{"a.cu", "// ptxgen:type A size=4096 go=Batch\n  //ptxgen:type B_2 size=8 go=example.org/x/y.B\r\n// about ptxgen:type, in words\n"})
	want := []typeDirective{{"A", 4096, "Batch"}, {"B_2", 8, "example.org/x/y.B"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"// ptxgen:tpye A size=1 go=B", "// ptxgen:type A go=B", "// ptxgen:type A size=0 go=B", "// ptxgen:type A size=1 go=B too"} {
		if _, err := directives(file{"a.cu", bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestNames(t *testing.T) {
	for _, row := range []struct{ c, up, low string }{
		{"copy_pages", "CopyPages", "copyPages"}, {"x", "X", "x"}, {"__odd__name_", "OddName", "oddName"},
		{"gather4k", "Gather4K", "gather4K"}, {"PageSize", "PageSize", "pageSize"}, {"sm_70", "Sm70", "sm70"},
	} {
		if camel(row.c) != row.up || lower(row.c) != row.low {
			t.Errorf("%s: got %s and %s, want %s and %s", row.c, camel(row.c), lower(row.c), row.up, row.low)
		}
	}
	for c, want := range map[string]string{"type": "typeArg", "k": "kArg", "stream": "streamArg", "dst": "dst", "n_pages": "nPages", "math": "mathArg"} {
		if got := argName(c); got != want {
			t.Errorf("parameter %s: got %s, want %s", c, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	known := map[string]typeDirective{
		"Mode": {"Mode", 4, "uint32"}, "Bad": {"Bad", 2, "uint32"}, "Mine": {"Mine", 48, "mine"}, "Far": {"Far", 16, "example.org/a/far.Type"},
	}
	for _, row := range []struct {
		p    param
		want goType
	}{
		{param{"a", "Unknown", true}, goType{8, "cuda.Ptr", "", convert64}},
		{param{"a", "unsigned long", false}, goType{8, "uint64", "", put64}},
		{param{"a", "int", false}, goType{4, "int32", "", convert32}},
		{param{"a", "Mode", false}, goType{4, "uint32", "", put32}},
		{param{"a", "Mine", false}, goType{48, "mine", "", ""}},
		{param{"a", "Far", false}, goType{16, "far.Type", "example.org/a/far", ""}},
	} {
		if got, err := resolve(row.p, known); err != nil || got != row.want {
			t.Errorf("%+v: got %+v, %v; want %+v", row.p, got, err, row.want)
		}
	}
	for typ, want := range map[string]string{"Unknown": "ptxgen:type Unknown size=BYTES go=Type", "Bad": "4 bytes, size= says 2"} {
		if _, err := resolve(param{"a", typ, false}, known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", typ, err, want)
		}
	}
}
