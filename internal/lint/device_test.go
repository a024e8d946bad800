package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// hostOnly is a function that clang takes for device code, for it is constexpr, and nvcc
// does not.
var hostOnly = regexp.MustCompile(`(?m)^(static |inline )*constexpr [\w:<> ]+\(`)

// TestDeviceHeaders: no function of a device header is one that only one of the compilers
// calls from a kernel. No nvcc is at hand where this runs.
func TestDeviceHeaders(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"../../*/device/*.cuh", "../../tier/bench/*.cu*", "../../workload/kernels/*.cu*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for _, at := range hostOnly.FindAllString(string(text), -1) {
				t.Errorf("%s: %q is no device function for nvcc: begin it with TRITIER_DEVICE", name, at)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d files were found: have they moved?", seen)
	}
}
