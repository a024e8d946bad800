// Package lint holds the tests that keep the house in order: who may import
// whom, and that no package of the libraries logs, exits or panics.
package lint

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tritier/tritier"

// rule says which of the module's own packages a package and those below it
// may import. The longest matching prefix applies; a package without a rule
// fails the test, so that new packages get one.
type rule struct {
	prefix string
	allow  []string
	why    string
}

// rootOnly allows the root package and nothing below it.
const rootOnly = "."

var rules = []rule{
	{"placement", []string{"placement", "internal/smallfile", "internal/yamlfile"}, "policies are pure: no I/O but for saved ones, no clock, no other part of the house"},
	{"placement/policytest", []string{"placement"}, "tests policies alone"},
	{"tier", []string{"placement", "tier", "internal/gate"}, "takes engines and stores through interfaces of its own"},
	{"tier/layout", nil, "the device's structs, for whoever sets them up: stands alone"},
	{"tier/layout/check", []string{"tier/layout", "cuda"}, "compares the structs with the device's own"},
	{"tier/kernels", []string{"tier/layout", "cuda"}, "compiled kernels and their handles"},
	{"tier/devicetest", nil, "tests of the device side"},
	{"tier/bench", []string{"tier", "placement", "bamio", "libnvm", "cuda"}, "measures the engine on a GPU"},
	{"tier/gpu", []string{"tier", "placement", "bamio", "copyeng", "libnvm", "cuda", "internal/gate"}, "the GPU-orchestrated engine's host part"},
	{"libnvm", []string{"libnvm", "internal/vfio", "internal/uring", "internal/servicetime", "internal/pci", "internal/qemu", "internal/memfd", "internal/units"}, "the driver is free of CUDA, and knows neither tiers nor simulator"},
	{"cuda", []string{"cuda", "internal/nap"}, "the driver API knows nothing of tiers"},
	{"copyeng", []string{"copyeng", "cuda", "internal/pinned", "internal/smallfile", "internal/yamlfile"}, "moves bytes between host and GPU"},
	{"bamio", []string{"bamio", "libnvm", "cuda", "internal/nap", "internal/pinned"}, "GPU-initiated I/O"},
	{"sim", []string{"sim", "tier", "placement", "internal/servicetime", "internal/units"}, "no CUDA, no backend"},
	{"sim/report", []string{"sim", "tier", "placement", "internal/servicetime", "internal/svgtext", "internal/units"}, "tables, pages and charts of the simulator's results"},
	{"sim/mrc", []string{"sim", "tier", "placement", "internal/units"}, "curves from the simulator's traces, with its machine and policies"},
	{"sim/timed", []string{"tier", "placement", "internal/servicetime"}, "virtual time: sim runs it, so it cannot know sim"},
	{"sim/tune", []string{"sim", "tier", "placement", "internal/servicetime"}, "tasks are pure functions of plain data: no CUDA, no command"},
	{"sim/trace", []string{"sim/trace"}, "readers stand alone"},
	{"sim/workload", []string{"sim/workload", "sim/trace", "internal/units"}, "generators make traces"},
	{"workload", []string{"workload", rootOnly, "cuda"}, "programs over the public API alone, and their kernels"},
	{"workload/kernels", []string{rootOnly, "cuda"}, "compiled kernels and their handles, as users write them"},
	{"metrics", []string{rootOnly, "copyeng", "tier/host"}, "reads what a Memory counts"},
	{"cmd", []string{"*"}, "commands assemble everything"},
	{"internal", []string{"internal", "libnvm", "tier", "placement"}, "helpers know no command and no simulator"},
	{"examples", []string{rootOnly, "cuda"}, "what users write"},
	{"internal/lint", nil, "looks at source only"},
	{"internal/devicerig", nil, "stands alone: the tests of the device side bring their programs"},
	{"internal/units", nil, "stands alone"},
	{"internal/servicetime", []string{"internal/units", "internal/smallfile", "internal/yamlfile"}, "one schema for simulator and drives"},
	{"internal/smallfile", nil, "stands alone"},
	{"internal/yamlfile", nil, "stands alone"},
	{"internal/svgtext", nil, "stands alone"},
	{"internal/uring", nil, "stands alone"},
	{"internal/vfio", []string{"internal/vfio"}, "stands alone, with its fake"},
	{"internal/pci", nil, "stands alone"},
	{"internal/nap", nil, "stands alone"},
	{"internal/gate", nil, "stands alone"},
	{"internal/gpuinfo", nil, "stands alone: it asks NVML and sysfs, not CUDA"},
	{"internal/pinned", nil, "stands alone: registration is a function that it is given"},
	{"internal/ptxgen", []string{"internal/ptxgen"}, "runs without a GPU or a driver"},
	{"internal/doctor", []string{"internal", "cuda"}, "looks at the machine; what it finds is printed elsewhere"},
	{"", []string{"tier", "placement", "copyeng", "bamio", "libnvm", "cuda", "internal"}, "the root package assembles the memory"},
}

type pkg struct {
	ImportPath, Name                     string
	Imports, TestImports, XTestImports   []string
	Dir                                  string
	GoFiles, TestGoFiles, IgnoredGoFiles []string
}

// packages lists the module's packages for both cgo settings.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Name,Imports,TestImports,XTestImports,Dir,GoFiles,TestGoFiles", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 5 {
		t.Fatalf("go list found only %d packages", len(list))
	}
	return list
}

// below says whether rel is prefix or lies below it.
func below(rel, prefix string) bool {
	return prefix == "" || rel == prefix || strings.HasPrefix(rel, prefix+"/")
}

func ruleFor(rel string) (best rule, ok bool) {
	for _, r := range rules {
		if r.prefix == "" && rel != "" {
			continue
		}
		if below(rel, r.prefix) && (!ok || len(r.prefix) > len(best.prefix)) {
			best, ok = r, true
		}
	}
	return best, ok
}

// violation returns why rel may not import imp, or "".
func violation(rel, imp string) string {
	r, ok := ruleFor(rel)
	if !ok {
		return fmt.Sprintf("package %s has no rule in internal/lint: add one", rel)
	}
	if rel == "tier" && (below(imp, "tier/layout") || below(imp, "tier/kernels")) {
		return fmt.Sprintf("%s imports %s: the page table knows no device", rel, imp)
	}
	if below(imp, "cmd") {
		return fmt.Sprintf("%s imports %s: nobody imports a command", rel, imp)
	}
	if slices.Contains(r.allow, "*") || slices.ContainsFunc(r.allow, func(a string) bool { return below(imp, a) || a == rootOnly && imp == "" }) {
		return ""
	}
	return fmt.Sprintf("%s imports %s: %s", rel, imp, r.why)
}

func TestLayering(t *testing.T) {
	for _, p := range packages(t) {
		rel := relative(p.ImportPath)
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if v := violation(rel, relative(imp)); v != "" {
				t.Error(v)
			}
		}
		checkPure(t, rel, p.Imports)
	}
}

// checkPure enforces that placement, tier and sim have no wall clock, no
// global random source and no processes: they run in virtual time.
func checkPure(t *testing.T, rel string, imports []string) {
	if !below(rel, "placement") && rel != "tier" && rel != "sim" && rel != "sim/timed" {
		return // tier/host moves real pages, with deadlines
	}
	for _, imp := range []string{"time", "math/rand", "math/rand/v2", "log", "log/slog", "os/exec", "net", "net/http"} {
		if slices.Contains(imports, imp) && path.Base(rel) != "policytest" {
			t.Errorf("%s imports %s: it runs in virtual time, seeded, without I/O", rel, imp)
		}
	}
}

func relative(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// The rules themselves: each row is an import that must be refused or allowed.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"placement", "tier", false},
		{"tier", "placement", true},
		{"tier", "libnvm", false},
		{"tier", "tier/layout", false},
		{"tier", "tier/kernels", false},
		{"tier/layout", "tier", false},
		{"tier/kernels", "cuda", true},
		{"tier/kernels", "copyeng", false},
		{"tier/gpu", "copyeng", true},
		{"tier/gpu", "sim", false},
		{"sim", "tier", true},
		{"sim", "cuda", false},
		{"sim/trace", "sim", false},
		{"sim/tune", "sim", true},
		{"sim/tune", "cuda", false},
		{"sim/tune", "internal/units", false},
		{"sim/timed", "tier", true},
		{"sim/timed", "sim", false},
		{"libnvm/soft", "internal/uring", true},
		{"libnvm/soft", "cuda", false},
		{"libnvm/drive", "internal/units", true},
		{"libnvm/drive", "internal/pci", true},
		{"libnvm/drive", "sim", false},
		{"libnvm/volume", "tier", false},
		{"libnvm", "cmd/tritier", false},
		{"copyeng", "libnvm", false},
		{"cmd/tritier", "sim/report", true},
		{"sim", "cmd/tritier", false},
		{"", "tier", true},
		{"", "sim", false},
		{"workload", "", true},
		{"workload", "tier", false},
		{"sim", "", false},
		{"newpackage", "tier", false},
		{"cuda/cudafake", "cuda", true},
		{"cuda", "internal/gpuinfo", false},
		{"copyeng", "internal/pinned", true},
		{"copyeng", "internal/smallfile", true},
		{"internal/yamlfile", "internal/smallfile", false},
		{"internal/smallfile", "internal/units", false},
		{"internal/pinned", "cuda", false},
		{"internal/gpuinfo", "cuda", false},
		{"internal/ptxgen/bindings", "cuda", false},
		{"internal/doctor", "cuda", true},
		{"internal/doctor", "internal/gpuinfo", true},
		{"internal/doctor", "copyeng", false},
		{"internal/units", "cuda", false},
		{"internal/qemu", "cuda", false},
	} {
		if got := violation(c.from, c.to); (got == "") != c.ok {
			t.Errorf("%q -> %q: allowed %v, want %v (%s)", c.from, c.to, got == "", c.ok, got)
		}
	}
}
