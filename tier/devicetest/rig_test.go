package devicetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// build is one way to build the rig.
type build struct {
	name  string
	flags []string
}

var (
	plain     = build{"plain", []string{"-O2", "-Wall", "-Wextra", "-Werror"}}
	threads   = build{"thread-sanitizer", []string{"-O1", "-g", "-fsanitize=thread", "-Wno-tsan"}}
	addresses = build{"address-sanitizer", []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}}
)

// compiler is g++, or a skip, or a failure when REQUIRE asks for it.
func compiler(t *testing.T) string {
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

var (
	programs  = map[string]string{} // by build
	building  sync.Mutex            // guards programs; held while one is built
	programIn string                // a folder for the whole run
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "devicetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programIn = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program is the rig with the device headers, built once.
func program(t *testing.T, b build) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if programs[b.name] == "" {
		bin := filepath.Join(programIn, b.name)
		compile(t, "../device", bin, b)
		programs[b.name] = bin
	}
	return programs[b.name]
}

// compile builds the rig with the device headers of the folder.
func compile(t *testing.T, headers, bin string, b build) {
	t.Helper()
	gxx := compiler(t)
	args := append([]string{"-std=c++17", "-pthread", "-I", headers, "-I", "../../bamio/device", "-I", "../../cuda/device",
		"-o", bin, filepath.Join("rig", "rig.cpp")}, b.flags...)
	out, err := exec.CommandContext(t.Context(), gxx, args...).CombinedOutput()
	if err == nil {
		return
	}
	for _, library := range []string{"asan", "tsan", "ubsan"} {
		if strings.Contains(string(out), "cannot find -l"+library) || strings.Contains(string(out), "cannot find lib"+library) {
			t.Skipf("g++ has no %s here", b.name)
		}
	}
	t.Fatalf("%v: %s", err, out)
}

// trial runs the rig under a limit and returns what it printed. All that it
// says goes into the error.
func trial(t *testing.T, bin string, limit time.Duration, args []string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=0")
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &all
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("still running after %v", limit)
	}
	if err == nil {
		return out.String(), nil
	}
	text := all.String() + out.String()
	if len(text) > 4000 {
		text = text[:4000] + " ..."
	}
	return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(bin), strings.Join(args, " "), err, text)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
