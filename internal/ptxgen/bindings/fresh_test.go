package bindings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deviceCopy copies cuda/device, headers and selftest, and returns the copy of
// selftest: a folder with two generated files, three sources and variants.
func deviceCopy(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..", "..", "cuda", "device")
	to := t.TempDir()
	for _, pattern := range []string{"*.cuh", "selftest/*.cu", "selftest/*.cuh", "selftest/*.ptx", "selftest/*.go"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(to, rel), read(t, name))
		}
	}
	return filepath.Join(to, "selftest")
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// edit replaces old, which must be there.
func edit(t *testing.T, name, old, with string) {
	t.Helper()
	text := read(t, name)
	if !strings.Contains(text, old) {
		t.Fatalf("%s lacks %q", name, old)
	}
	write(t, name, strings.Replace(text, old, with, 1))
}

func TestFreshCopy(t *testing.T) {
	if err := CheckFresh(deviceCopy(t)); err != nil {
		t.Fatal(err)
	}
}

// Each change alone must be noticed, and the message must say what it was.
func TestCheckFreshNotices(t *testing.T) {
	for _, row := range []struct {
		name   string
		file   string // relative to the folder
		change func(t *testing.T, path string)
		want   []string
	}{
		{"source", "selftest.cu", func(t *testing.T, p string) { edit(t, p, "times; i++", "times; ++i") },
			[]string{"selftest.ptx is stale", "selftest.cu", "clang 19"}},
		{"comment in the source", "magic.cu", func(t *testing.T, p string) { edit(t, p, "A second", "Another") },
			[]string{"magic.sm_70.ptx is stale", "magic.sm_90.ptx is stale", "since: magic.cu"}},
		{"header of the folder", "variants.cuh", func(t *testing.T, p string) { edit(t, p, "0x7417", "0x7418") },
			[]string{"variants.sm_80.ptx is stale", "magic.sm_80.ptx is stale", "since: variants.cuh"}},
		{"header behind a header", "../platform.cuh", func(t *testing.T, p string) { edit(t, p, "sizeof(T) == 4", "sizeof(T) == 2") },
			[]string{"selftest.ptx is stale", "since: ../platform.cuh"}},
		{"PTX body", "selftest.ptx", func(t *testing.T, p string) { edit(t, p, "ld.acquire.sys.u32", "ld.relaxed.sys.u32") },
			[]string{"selftest.ptx is stale", "the PTX itself"}},
		{"flags in the PTX", "selftest.ptx", func(t *testing.T, p string) { edit(t, p, "-O3", "-O2") }, []string{"its flags"}},
		{"generator's version", "selftest.ptx", func(t *testing.T, p string) { edit(t, p, "ptxgen:version ", "ptxgen:version 9") }, []string{"since: ptxgen"}},
		{"hash", "selftest.ptx", func(t *testing.T, p string) { edit(t, p, "ptxgen:hash sha256:", "ptxgen:hash sha256:0") }, []string{"its header"}},
		{"no header", "selftest.ptx", func(t *testing.T, p string) { write(t, p, ".version 6.3\n") }, []string{"lacks ptxgen's header"}},
		{"no PTX", "magic.sm_80.ptx", func(t *testing.T, p string) {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}, []string{"magic.sm_80.ptx", "go generate"}},
		{"Go file", "selftest_gen.go", func(t *testing.T, p string) { edit(t, p, "PutUint32(params[16:]", "PutUint32(params[20:]") },
			[]string{"selftest_gen.go", "not what ptxgen writes"}},
		{"no arguments", "selftest_gen.go", func(t *testing.T, p string) { edit(t, p, "ptxgen:args", "args") }, []string{"ptxgen:args line"}},
		{"wrong arguments", "selftest_gen.go", func(t *testing.T, p string) { edit(t, p, "-o selftest_gen.go", "-o other_gen.go") },
			[]string{"was written as other_gen.go"}},
		{"flags of go:generate", "doc.go", func(t *testing.T, p string) { edit(t, p, "-arch sm_70,sm_80,sm_90", "-arch sm_70,sm_90") },
			[]string{"go:generate line", "-arch sm_70,sm_90", "-arch sm_70,sm_80,sm_90"}},
		{"wrong go:generate", "doc.go", func(t *testing.T, p string) { edit(t, p, "-package selftest -o selftest_gen.go", "-o x") },
			[]string{"doc.go: go:generate", "-package"}},
		{"forgotten PTX", "left.ptx", func(t *testing.T, p string) { write(t, p, mark+" from left.cu; DO NOT EDIT.\n") },
			[]string{"left.ptx", "delete it"}},
		{"header appears", "tritier.cuh", func(t *testing.T, p string) { write(t, p, "#pragma once\n#include \"../tritier.cuh\"\n") },
			[]string{"selftest.ptx is stale", "since: tritier.cuh"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := deviceCopy(t)
			row.change(t, filepath.Join(dir, row.file))
			err := CheckFresh(dir)
			for _, w := range row.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Fatalf("got %v; want an error with %q", err, w)
				}
			}
		})
	}
}

// PTX by other hands is none of ptxgen's business.
func TestCheckFreshLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hand.ptx"), ".version 7.0\n")
	write(t, filepath.Join(dir, "x.go"), "package x\n")
	if err := CheckFresh(dir); err != nil {
		t.Error(err)
	}
}

func TestReadInputs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"src/a.cu":     "#include \"near.cuh\"\n  #  include <far.cuh>\n#include <stdint.h>\n// #include \"commented.cuh\"\n",
		"src/near.cuh": "#include \"../both.cuh\"\n",
		"both.cuh":     "#ifdef NEVER\n#include \"far.cuh\"\n#endif\n",
		"inc/far.cuh":  "#include \"near2.cuh\"\n#include \"both.cuh\"\n", "inc/near2.cuh": "#include \"far.cuh\"\n",
		"src/commented.cuh": "",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	in, err := readInputs(filepath.Join(dir, "src"), "a.cu", []string{"../inc", ".."})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range in.files {
		got = append(got, f.path)
	}
	if want := "../both.cuh ../inc/far.cuh ../inc/near2.cuh a.cu near.cuh"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	write(t, filepath.Join(dir, "src", "a.cu"), "#include HEADER\n")
	if _, err := readInputs(filepath.Join(dir, "src"), "a.cu", nil); err == nil || !strings.Contains(err.Error(), "HEADER") {
		t.Errorf("an include by macro: %v", err)
	}
}
