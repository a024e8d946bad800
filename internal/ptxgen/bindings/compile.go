package bindings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// clangMajor is the compiler's version. Another one gives other PTX, so that
// the committed files would change with the machine.
const clangMajor = "19"

// compileLimit bounds one run of the compiler; the largest source takes seconds.
const compileLimit = 5 * time.Minute

// ErrNoClang is in the error when there is no compiler to generate with.
var ErrNoClang = errors.New("ptxgen needs clang " + clangMajor + " to compile CUDA sources (no CUDA toolkit): " +
	"install Debian's package clang-" + clangMajor + " (apt-get install clang-" + clangMajor + ", or run .ci/clang-setup), or set TRITIER_CLANG to the compiler")

var clangVersion = regexp.MustCompile(`clang version ([0-9]+)\.`)

// findClang returns the compiler to run: TRITIER_CLANG, else clang-19, else
// clang if it is version 19.
func findClang(ctx context.Context) (string, error) {
	names := []string{"clang-" + clangMajor, "clang"}
	chosen := os.Getenv("TRITIER_CLANG")
	if chosen != "" {
		names = []string{chosen}
	}
	var seen []string
	for _, name := range names {
		out, err := exec.CommandContext(ctx, name, "--version").Output()
		m := clangVersion.FindSubmatch(out)
		switch {
		case errors.Is(err, exec.ErrNotFound):
		case err != nil:
			seen = append(seen, fmt.Sprintf("%s --version: %v", name, err))
		case m == nil:
			seen = append(seen, name+" is no clang")
		case string(m[1]) != clangMajor:
			seen = append(seen, fmt.Sprintf("%s is version %s", name, m[1]))
		default:
			return name, nil
		}
	}
	if chosen != "" && len(seen) == 0 {
		seen = []string{"TRITIER_CLANG=" + chosen + " was not found"}
	}
	if len(seen) > 0 {
		return "", fmt.Errorf("%w (%s)", ErrNoClang, strings.Join(seen, "; "))
	}
	return "", ErrNoClang
}

// flags are the compiler's, but for the names of files. Nothing in them or in
// the output depends on the machine: the host that clang imagines is fixed, no
// header of the system and no configuration file is read.
func (c Config) flags(t Target) []string {
	f := []string{
		"--no-default-config", "--target=x86_64-unknown-linux-gnu", "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib",
		"-nostdlibinc", "-ffreestanding", "-std=c++17", "-O3", "-fno-fast-math", "-fno-ident", "-fuse-cuid=none",
		"-Wall", "-Wextra", "-Werror", "--cuda-gpu-arch=" + t.Arch, "--cuda-feature=" + t.PTX, "-S",
	}
	for _, dir := range c.Includes {
		f = append(f, "-I", dir)
	}
	return f
}

// variables of the environment that would change what the compiler reads.
var hidden = []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "COMPILER_PATH", "CCC_OVERRIDE_OPTIONS", "LC_ALL"}

// compile returns the PTX of one source for one target.
func (c Config) compile(ctx context.Context, clang, dir string, in inputs, t Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, compileLimit)
	defer cancel()
	work, err := os.MkdirTemp("", "ptxgen")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	deps := filepath.Join(work, "deps")
	args := append(c.flags(t), "-MMD", "-MF", deps, "-MT", "ptx", "-o", "-", in.source)
	cmd := exec.CommandContext(ctx, clang, args...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains(hidden, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s for %s: %s: %w\n%s", in.source, t.Arch, clang, err, text.Bytes())
	}
	if err := in.covers(deps); err != nil {
		return "", err
	}
	return out.String(), checkPortable(out.String(), dir)
}

// covers compares the headers that the compiler read with those that
// readInputs found: one that it missed could change without the PTX becoming
// stale.
func (in inputs) covers(deps string) error {
	data, err := os.ReadFile(deps)
	if err != nil {
		return err
	}
	_, list, _ := strings.Cut(strings.ReplaceAll(string(data), "\\\n", " "), ":")
	for _, name := range strings.Fields(list) {
		if !filepath.IsAbs(name) && !in.has(name) {
			return fmt.Errorf("%s: the compiler read %s, whose #include ptxgen did not see: write it as a plain #include \"name\"", in.source, name)
		}
	}
	return nil
}

// checkPortable refuses PTX that names this machine's folders, in a comment or
// as a string, which PTX writes byte by byte.
func checkPortable(ptx, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	coded := strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(abs)), " ", ", "), "[]")
	if len(abs) > 1 && (strings.Contains(ptx, abs) || strings.Contains(ptx, coded)) {
		return fmt.Errorf("the PTX contains this folder's path, %s: it would differ on another machine", abs)
	}
	return nil
}
