package tritier_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tritier/tritier"
)

// TestFailedCreateLeavesNoFile: files that were made for a store that came to nothing
// go, and those that were there stay as they were.
func TestFailedCreateLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("mine"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]tritier.Config{
		"a drive too small for a page": {Store: "file:" + file("a") + "?size=64KiB"},
		"a second drive that fails":    {Store: "file:" + file("a") + "?size=8MiB,file:" + filepath.Join(dir, "absent", "b") + "?size=8MiB"},
		"a drive that holds something": {Store: "file:" + file("a") + "?size=8MiB,file:" + file("mine") + "?size=8MiB"},
	} {
		c.GPU, c.Create, c.T1, c.T2 = "none", true, 1<<20, 1<<20
		m, err := tritier.Open(t.Context(), c)
		var bad *tritier.ConfigError
		if err == nil || errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			closeMemory(t, m)
		}
		if _, err := os.Stat(file("a")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the file that was made: %v", what, err)
		}
	}
	if text, err := os.ReadFile(file("mine")); err != nil || string(text[:8]) != "precious" {
		t.Errorf("what was there: %q, %v", text, err)
	}
}
