package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNothingIsFused: no product is added before it was rounded. Instructions with a
// rounding of their own stay as they are when the driver compiles PTX; a product without
// one may be fused with a sum.
func TestNothingIsFused(t *testing.T) {
	files, err := filepath.Glob("*.ptx")
	if err != nil || len(files) != 9 {
		t.Fatal(files, err)
	}
	fused := regexp.MustCompile(`\b(fma|mad)\.[a-z.]*f32|\bmul\.(ftz\.|sat\.)*f32|\bdiv\.(approx|full)\.`)
	products := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		products += strings.Count(string(text), "mul.rn.f32")
		if x := fused.Find(text); x != nil {
			t.Errorf("%s has %s", f, x)
		}
	}
	if products < 20 {
		t.Errorf("%d products of their own rounding", products)
	}
}
