package smallfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestBesideSweeps: what a dead process left of the same file goes, and nothing else.
func TestBesideSweeps(t *testing.T) {
	dir := t.TempDir()
	keep := []string{".x.0123abcd.tmp.bak", ".x.0123ABCD.tmp", ".x.0123abcg.tmp", ".x.123.tmp", ".x.tmp", ".xy.0123abcd.tmp", "x.0123abcd.tmp", "x", ".y.0123abcd.tmp"}
	for _, name := range append([]string{".x.0123abcd.tmp", ".x.ffffffff.tmp"}, keep...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("x", filepath.Join(dir, ".x.00000000.tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".x.00000001.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := CreateBeside(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := CreateBeside(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	keep = append(keep, ".x.00000000.tmp", ".x.00000001.tmp", filepath.Base(first.Name()), filepath.Base(second.Name()))
	slices.Sort(keep)
	if got := names(t, dir); !slices.Equal(got, keep) {
		t.Errorf("there are %q, want %q", got, keep)
	}
	// Without its owner the first is one that was left.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := CreateBeside(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", first.Name(), err)
	}
	if err := errors.Join(second.Close(), third.Close()); err != nil {
		t.Error(err)
	}
}

// TestBesideAtOnce: however many begin, write and end at once, each gets its own file in
// place whole, and none takes another's away.
func TestBesideAtOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 50 {
				f, err := CreateBeside(file)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = fmt.Fprintf(f, "%d %d\n", i, n)
				if err = errors.Join(err, os.Rename(f.Name(), file), f.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}
