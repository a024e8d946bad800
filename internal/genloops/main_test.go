package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed loops are what the templates give: run go generate ./...
func TestGeneratedFilesAreFresh(t *testing.T) {
	for name := range files {
		want, err := source(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "tier", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("tier/%s is stale: run go generate ./...", name)
		}
	}
}
