// Package devicerig builds programs of device headers with g++ and runs them on CPU
// threads, for tests: as they are, with sanitizers, and with mistakes put into the
// headers (mutants.go), which the program must notice. rig/ has what such programs
// share: lanes that are threads, problems, random numbers.
package devicerig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Build is one way to build a program.
type Build struct {
	Name  string
	Flags []string
}

// The builds that there are.
var (
	Plain     = Build{"plain", []string{"-O2", "-Wall", "-Wextra", "-Werror"}}
	Threads   = Build{"thread-sanitizer", []string{"-O1", "-g", "-fsanitize=thread", "-Wno-tsan"}}
	Addresses = Build{"address-sanitizer", []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}}
)

// Rig is the programs of one package of tests: rig/NAME.cpp over ../device. Its methods
// may be called from several goroutines.
type Rig struct {
	includes []string // folders of headers behind ../device

	mu       sync.Mutex        // guards programs; held while one is built
	programs map[string]string // by source and build
	folder   string            // for the whole run
}

// New makes a rig whose programs include headers of these folders besides.
func New(includes ...string) *Rig { return &Rig{includes: includes, programs: map[string]string{}} }

// Main is what TestMain calls. It gives the exit status.
func (r *Rig) Main(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "devicetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r.folder = dir
	code = m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Compiler is g++, or a skip, or a failure when REQUIRE asks for it.
func Compiler(t *testing.T) string {
	t.Helper()
	gxx, err := exec.LookPath("g++")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "g++") {
			t.Fatalf("REQUIRE has g++: %v", err)
		}
		t.Skip("no g++")
	}
	return gxx
}

// Program is rig/source with the device headers, built once.
func (r *Rig) Program(t *testing.T, source string, b Build) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := b.Name + "-" + strings.TrimSuffix(source, ".cpp")
	if r.programs[key] == "" {
		bin := filepath.Join(r.folder, key)
		r.Compile(t, source, "../device", bin, b)
		r.programs[key] = bin
	}
	return r.programs[key]
}

// Compile builds rig/source with the device headers of a folder.
func (r *Rig) Compile(t *testing.T, source, headers, bin string, b Build) {
	t.Helper()
	gxx := Compiler(t)
	args := []string{"-std=c++17", "-pthread", "-I", headers}
	for _, dir := range r.includes {
		args = append(args, "-I", dir)
	}
	touch(t, append([]string{"rig", headers, shared()}, r.includes...)...)
	args = append(append(args, "-I", shared(), "-o", bin, filepath.Join("rig", source)), b.Flags...)
	out, err := exec.CommandContext(t.Context(), gxx, args...).CombinedOutput()
	if err == nil {
		return
	}
	for _, library := range []string{"asan", "tsan", "ubsan"} {
		if strings.Contains(string(out), "cannot find -l"+library) || strings.Contains(string(out), "cannot find lib"+library) {
			t.Skipf("g++ has no %s here", b.Name)
		}
	}
	t.Fatalf("%v: %s", err, out)
}

// shared is the folder of what programs share.
func shared() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "rig")
}

// touch opens what a compiler reads: go test takes a result from its cache unless a file
// that the test itself has opened is another one now.
func touch(t *testing.T, folders ...string) {
	t.Helper()
	for _, dir := range folders {
		names, err := filepath.Glob(filepath.Join(dir, "*.[ch]*"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no headers in %s: %v", dir, err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Trial runs a program under a limit, with files as descriptors 3 and up, and returns
// its standard output. All that it says goes into the error.
func Trial(t *testing.T, bin string, limit time.Duration, args []string, files ...*os.File) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("still running after %v", limit)
	}
	if err == nil {
		return out.String(), nil
	}
	text := errs.String() + out.String()
	if len(text) > 4000 {
		text = text[:4000] + " ..."
	}
	return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(bin), strings.Join(args, " "), err, text)
}

// LastLine is that of a text.
func LastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
