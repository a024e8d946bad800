package kernels_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	firstLook = regexp.MustCompile(`ld\.global\.ca\.u64\s+%rd\d+, \[(%rd\d+)\];`)
	laterLook = regexp.MustCompile(`ld\.relaxed\.gpu\.global\.u64\s+%rd\d+, \[(%rd\d+)\];`)
	function  = regexp.MustCompile(`(?m)^\}\s*$`)
)

// TestSecondLook: no compiler has taken the second look at an entry off the element that
// was read between the two. Its address, made with the element's value, is another
// register than the first look's: glance.cuh says why that must be.
func TestSecondLook(t *testing.T) {
	looks := 0
	for _, pattern := range []string{"*.ptx", "../*/*.ptx", "../../workload/kernels/*.ptx", "../../examples/*/*.ptx"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range function.Split(string(text), -1) {
				first := map[string]bool{}
				for _, m := range firstLook.FindAllStringSubmatch(body, -1) {
					first[m[1]] = true
					looks++
				}
				for _, m := range laterLook.FindAllStringSubmatch(body, -1) {
					if first[m[1]] {
						t.Errorf("%s: a second look at [%s] that hangs on no element", name, m[1])
					}
				}
			}
		}
	}
	if looks == 0 {
		t.Error("no kernel looks at an entry: has the first look's instruction changed?")
	}
}
