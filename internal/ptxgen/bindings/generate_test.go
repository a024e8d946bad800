package bindings

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// needClang skips without the compiler, and fails when REQUIRE has clang.
func needClang(t *testing.T) {
	t.Helper()
	if _, err := findClang(t.Context()); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "clang") {
			t.Fatalf("REQUIRE has clang: %v", err)
		}
		t.Skip(err)
	}
}

func generate(t *testing.T, dir, args string) error {
	t.Helper()
	c, err := ParseArgs(strings.Fields(args), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return Generate(t.Context(), dir, c)
}

// In another folder, and with another environment, every byte is as committed.
func TestGenerateGivesTheCommittedFiles(t *testing.T) {
	needClang(t)
	dir := deviceCopy(t)
	t.Setenv("CPATH", "/usr/include")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	directives, err := directiveArgs(read(t, filepath.Join(dir, "doc.go")))
	if err != nil || len(directives) != 2 {
		t.Fatalf("directives: %q, %v", directives, err)
	}
	committed := map[string]string{}
	for _, pattern := range []string{"*.ptx", "*_gen.go"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			committed[name] = read(t, name)
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(committed) != 9 {
		t.Errorf("%d committed files, want 9", len(committed))
	}
	for _, args := range directives {
		if err := generate(t, dir, args); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range committed {
		if got := read(t, name); got != want {
			t.Errorf("%s differs from the committed one: run go generate ./...", filepath.Base(name))
		}
	}
	if err := CheckFresh(dir); err != nil {
		t.Error(err)
	}
}

const prologue = "#include \"tritier.cuh\"\n"

// What is wrong is said, and nothing is written.
func TestGenerateRefuses(t *testing.T) {
	needClang(t)
	for _, row := range []struct{ name, source, want string }{
		{"syntax", `extern "C" __global__ void k() { nonsense }`, "nonsense"},
		{"warning", `extern "C" __global__ void k(int* p) { int unused; *p = 1; }`, "unused"},
		{"no kernel", `__device__ int x;`, "no kernel"},
		{"C++ linkage", `__global__ void k(int* p) { *p = 1; }`, "extern \"C\""},
		{"template", `template <class T> __global__ void k(T* p) { *p = 1; }` + "\n" + `template __global__ void k<int>(int*);`, "extern \"C\""},
		{"macro", `#define KERNEL(n) extern "C" __global__ void n(int* p) { *p = 1; }` + "\nKERNEL(k)", "its declaration was not found"},
		{"unknown type", `struct S { int a; }; extern "C" __global__ void k(S s, int* p) { *p = s.a; }`, "ptxgen:type S"},
		{"wrong size", "// ptxgen:type S size=8 go=S\n" + `struct S { int a; }; extern "C" __global__ void k(S s, int* p) { *p = s.a; }`, "has 4 bytes in the PTX, not 8"},
		{"too large", "// ptxgen:type S size=4096 go=S\n" + `struct S { char a[4096]; }; extern "C" __global__ void k(S s, char* p) { *p = s.a[0]; }`, "4104 bytes"},
		{"same name in Go", `extern "C" __global__ void a_b(int* p) { *p = 1; }` + "\n" + `extern "C" __global__ void aB(int* p) { *p = 1; }`, "both called AB"},
		{"method of the type", `extern "C" __global__ void close(int* p) { *p = 1; }`, "Close"},
		{"constant like the type", `extern "C" __global__ void k(int* p) { *p = 1; }` + "\n" + `TRITIER_EXPORT_CONST(kernels, 1);`, "Kernels"},
		{"constant by hand", `extern "C" __device__ __attribute__((used)) const uint32_t ptxgen_const_x = 1;` + "\n" + `extern "C" __global__ void k(int* p) { *p = 1; }`, "TRITIER_EXPORT_CONST"},
		{"include by macro", "#define H \"tritier.cuh\"\n#include H\n" + `extern "C" __global__ void k(int* p) { *p = 1; }`, "#include H"},
		{"hidden include", "#if 1 /*\n*/\n#inc\\\nlude \"memory.cuh\"\n#endif\n" + `extern "C" __global__ void k(int* p) { *p = 1; }`, "ptxgen did not see"},
		{"path of the machine", `__device__ const char* where = HERE;` + "\n" + `extern "C" __global__ void k(const char** p) { *p = where; }`, "this folder's path"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := deviceCopy(t)
			source := prologue + row.source
			switch row.name {
			case "hidden include":
				source = strings.Replace(row.source, "memory.cuh", "tritier.cuh", 1)
			case "include by macro":
				source = row.source
			}
			write(t, filepath.Join(dir, "bad.cu"), strings.ReplaceAll(source, "HERE", `"`+dir+`"`))
			err := generate(t, dir, "-package x -o bad_gen.go -I .. bad.cu")
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v; want an error with %q", err, row.want)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*bad*")); err != nil || len(left) != 1 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

func TestWithoutClang(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TRITIER_CLANG", "")
	err := generate(t, deviceCopy(t), "-package x -o x_gen.go -I .. magic.cu")
	if !errors.Is(err, ErrNoClang) || !strings.Contains(err.Error(), "apt-get install clang-19") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	for name, reply := range map[string]string{"clang": "clang version 14.0.6", "other": "gcc (GCC) 12"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+reply+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for chosen, want := range map[string]string{"": "clang is version 14", "other": "other is no clang", "missing": "TRITIER_CLANG=missing was not found"} {
		t.Setenv("TRITIER_CLANG", chosen)
		if _, err := findClang(t.Context()); !errors.Is(err, ErrNoClang) || !strings.Contains(err.Error(), want) {
			t.Errorf("TRITIER_CLANG=%s: got %v, want %s", chosen, err, want)
		}
	}
}
