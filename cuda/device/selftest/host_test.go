package selftest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// build compiles a program of testdata with g++, as plain C++.
func build(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++")
	}
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I..", "-I."}, flags...)
	cmd := exec.CommandContext(t.Context(), "g++", append(args, "-o", out, filepath.Join("testdata", source))...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, text)
	}
	return out
}

// run gives what the program printed to its standard output.
func run(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.String())
	}
	return strings.Fields(string(out))
}

func TestMemoryOpsOnCPU(t *testing.T) {
	var got []uint64
	for _, f := range run(t, build(t, "ops.cpp")) {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	want := results()
	if len(got) != len(want)+3 {
		t.Fatalf("%d results, want %d", len(got), len(want)+3)
	}
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("result %d: got %#x, want %#x", i, got[i], w)
		}
	}
	rest := got[len(want):]
	if !slices.Equal(rest[:2], []uint64{1, 1}) {
		t.Errorf("16-byte load right: %d, store right: %d", rest[0], rest[1])
	}
	if slept := time.Duration(rest[2]); slept < 10*time.Millisecond {
		t.Errorf("100 sleeps of 100 us took %v", slept)
	}
}

func TestThreadsOnCPU(t *testing.T) {
	if got := run(t, build(t, "threads.cpp")); !slices.Equal(got, []string{"ok"}) {
		t.Error(strings.Join(got, " "))
	}
}

// The sanitizer follows the order of each access, so it sees one that is too
// weak on a processor that orders more than was asked for.
func TestThreadsUnderSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66")
	if !sanitizes(t) {
		t.Skip("no thread sanitizer for g++ here")
	}
	if got := run(t, build(t, "threads.cpp", "-fsanitize=thread")); !slices.Equal(got, []string{"ok"}) {
		t.Error(strings.Join(got, " "))
	}
}

// sanitizes says whether programs with the sanitizer build and run at all: it
// is a package of its own, and does not like every kernel's address layout.
func sanitizes(t *testing.T) bool {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		return false
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "empty.cpp"), filepath.Join(dir, "empty")
	if err := os.WriteFile(source, []byte("int main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), "g++", "-fsanitize=thread", "-o", program, source).Run() == nil &&
		exec.CommandContext(t.Context(), program).Run() == nil
}
