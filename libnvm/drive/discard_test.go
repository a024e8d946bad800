package drive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestDiscard: a file that this Open has made goes, at Close or when the drive has to be
// left open; one that was there, or that has taken its name, stays.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) (*Drive, string) {
		t.Helper()
		path := filepath.Join(dir, name)
		d, err := Open(context.Background(), "file:"+path+"?size=1MiB", Options{Access: ReadWrite})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() }) // a second one does nothing
		return d, path
	}
	gone := func(what, path string, want bool) {
		t.Helper()
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) != want {
			t.Errorf("%s: %v, gone should be %v", what, err, want)
		}
	}
	d, path := open("a")
	if err := d.Abandon(); err != nil {
		t.Error(err)
	}
	gone("left open without a wish", path, false)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	gone("closed without a wish", path, false)
	d, _ = open("a")
	d.Discard()
	if err := errors.Join(d.Abandon(), d.Close()); err != nil {
		t.Error(err)
	}
	gone("one that was there", path, false)
	d, path = open("b")
	d.Discard()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	gone("closed", path, true)
	d, path = open("c")
	d.Discard()
	if err := d.Abandon(); err != nil {
		t.Error(err)
	}
	gone("left open", path, true)
	d, path = open("d")
	d.Discard()
	if err := errors.Join(os.Rename(path, path+".mine"), os.WriteFile(path, []byte("precious"), 0o600), d.Close()); err != nil {
		t.Error(err)
	}
	gone("another of the name", path, false)
	gone("one that was renamed", path+".mine", false)
}
