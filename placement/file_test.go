package placement

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.yaml")
	for _, in := range []string{"lru", "random{t1=2q(kin=0.1),p=0.125,t2copy=keep}"} {
		spec := mustParse(t, in)
		if err := SaveFile(path, spec, "seed 7: of this", "two\npolicy: fifo"); err != nil {
			t.Fatal(err)
		}
		for _, load := range []func() (Spec, error){
			func() (Spec, error) { return LoadFile(path) },
			func() (Spec, error) { return Parse("@" + path) },
			func() (Spec, error) { return Parse(" @" + path + "\n") },
		} {
			if got, err := load(); err != nil || got.String() != spec.String() {
				t.Errorf("%s reads back as %s, %v", spec, got, err)
			}
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("saving left %v, %v", left, err)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct{ content, want string }{
		"empty":     {"", "version 0"},
		"version":   {"version: 2\npolicy: lru\n", "version 2, this program reads version 1"},
		"part":      {"version: 1.9\npolicy: lru\n", "[1:10] here must be a whole number"},
		"unversion": {"policy: lru\n", "version 0"},
		"unknown":   {"version: 1\npolicy: lru\nframes: 3\n", "frames"},
		"twice":     {"version: 1\npolicy: lru\npolicy: arc\n", "policy"},
		"syntax":    {"version: 1\npolicy: lrx\n", `unknown policy "lrx"`},
		"nested":    {"version: 1\npolicy: '@other'\n", `found "@"`},
		"documents": {"version: 1\npolicy: lru\n---\nversion: 1\npolicy: arc\n", "more than one"},
		"type":      {"version: 1\npolicy: [lru]\n", "policy"},
		"garbage":   {"\x00\xff{{{", "garbage"},
		"long":      {"version: 1\npolicy: lru\n#" + strings.Repeat("x", maxFileLen), "at most 65536"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadFile(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %s, %v; want an error that names the file and says %q", name, got, err, tc.want)
		}
	}
	if _, err := Parse("@" + filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := LoadFile(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("directory: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFile(pipe); err == nil || !strings.Contains(err.Error(), "a pipe") { // and does not wait for a writer
		t.Errorf("pipe: %v", err)
	}
}

func TestSaveErrors(t *testing.T) {
	if err := SaveFile(filepath.Join(t.TempDir(), "x"), Spec{}); err == nil {
		t.Error("an empty policy was saved")
	}
	if err := SaveFile(filepath.Join(t.TempDir(), "absent", "x"), mustParse(t, "lru")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}

// FuzzParseFile looks for contents that panic, or that load as a policy which
// cannot be saved and loaded again.
func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"", "version: 1\npolicy: lru\n", "version: 1\npolicy: 'random{p=0.1}'", "{version: 1, policy: arc}",
		"version: &a 1\npolicy: *a", "- 1", "version: 1\npolicy: |\n  lru\n", "? [a]\n: b", "version: !!int 1\npolicy: !!str lru"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, err := parseFile(raw)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "p")
		if err := SaveFile(path, spec); err != nil {
			t.Fatal(err)
		}
		if again, err := LoadFile(path); err != nil || again.String() != spec.String() {
			t.Fatalf("%q loads as %s, and then as %s, %v", raw, spec, again, err)
		}
	})
}
