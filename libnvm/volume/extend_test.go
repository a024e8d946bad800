package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCheckFilesLooksEverywhere: a file that holds anything, wherever it is, is somebody's. One of
// zeroes is not, nor what an interrupted Create leaves.
func TestCheckFilesLooksEverywhere(t *testing.T) {
	for _, c := range []struct {
		size, at int64
		mark     string
		taken    bool
	}{
		{1 << 20, 0, "", false},
		{1 << 20, 2 * dirOffset, dirMagic, false},
		{5 << 30, 2 * dirOffset, dirMagic, false},
		{1 << 20, 2 * dirOffset, "precious", true},
		{1 << 20, 2*dirOffset - 8, dirMagic, true},
		{1 << 20, 3 * dirOffset, dirMagic, true},
		{1 << 20, 1<<20 - 1, "x", true},
		{1<<20 + 5, 1<<20 + 4, "x", true},
		{5 << 30, 2*dirOffset + 70_000, "x", true},
		{5 << 30, 5<<30 - 1, "x", true}, // behind nothing but a hole
	} {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte(c.mark), c.at)
		if err := errors.Join(err, f.Truncate(c.size), f.Close()); err != nil {
			t.Fatal(err)
		}
		var taken *NotEmptyError
		if err := CheckFiles([]string{path}); errors.As(err, &taken) != c.taken || (err != nil) != c.taken {
			t.Errorf("%q at %d of %d: %v", c.mark, c.at, c.size, err)
		}
	}
}

// TestCheckFilesLooksAtParts: of a file with more data than is read of one, all of it is
// looked at in places.
func TestCheckFilesLooksAtParts(t *testing.T) {
	defer func(n int64) { restBytes = n }(restBytes)
	restBytes = 256 << 10
	path := filepath.Join(t.TempDir(), "f")
	content := make([]byte, 4<<20)
	for i := 3 << 20; i < len(content); i++ {
		content[i] = 'x'
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var taken *NotEmptyError
	if err := CheckFiles([]string{path}); !errors.As(err, &taken) {
		t.Errorf("%v", err)
	}
}
