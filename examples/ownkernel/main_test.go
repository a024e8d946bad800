package main

import (
	"os"
	"strings"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// TestRun runs the example where there is a GPU.
func TestRun(t *testing.T) {
	if _, err := cuda.Open(); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err := run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}
