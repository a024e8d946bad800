package main

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tritier/tritier/internal/ptxgen/bindings"
)

// Every PTX and every file of handles in the module is what its sources give:
// run go generate ./... when this fails.
func TestCommittedKernelsAreFresh(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
			return fs.SkipDir
		}
		if ptx, err := filepath.Glob(filepath.Join(path, "*.ptx")); err != nil || len(ptx) > 0 {
			found++
		}
		if err := bindings.CheckFresh(path); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no folder with kernels was found: the walk is wrong")
	}
}
