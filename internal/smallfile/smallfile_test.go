package smallfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// within fails the test when f hangs.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
		return nil
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, n := range map[string]int{"empty": 0, "small": 10, "full": 100, "long": 101} {
		if err := os.WriteFile(at(name), bytes.Repeat([]byte("x"), n), 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := Read(at(name), 100)
		if (err != nil) != (n > 100) || err == nil && len(data) != n {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	var refused *Error
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{at("long"): "at most 100", at("pipe"): "is a pipe", at("folder"): "is a folder", "/dev/zero": "is a device"} {
		err := within(t, func() error { _, err := Read(name, 100); return err })
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || refused.File != name {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Read(at("none"), 100); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// Files without a size are bounded too.
	if _, err := os.Stat("/proc/self/maps"); err == nil {
		if _, err := Read("/proc/self/maps", 20); !errors.As(err, &refused) {
			t.Errorf("a longer file that has no size: %v", err)
		}
	}
}

// names lists a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b", "x.yaml")
	for _, text := range []string{"a longer first text", "second"} {
		if err := Replace(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if list := names(t, filepath.Dir(file)); len(list) != 1 {
		t.Errorf("files %v", list)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What a link leads to is replaced, and the link stays, whether there is something yet or not.
func TestReplaceThroughLinks(t *testing.T) {
	for _, exists := range []bool{true, false} {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		if err := errors.Join(os.Mkdir(at("real"), 0o700), os.Mkdir(at("links"), 0o700),
			os.Symlink("../second", at("links/first")), os.Symlink(at("real/file"), at("second"))); err != nil {
			t.Fatal(err)
		}
		if exists {
			if err := os.WriteFile(at("real/file"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Replace(at("links/first"), []byte("new")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(at("real/file")); err != nil || string(got) != "new" {
			t.Errorf("%q, %v", got, err)
		}
		if to, err := os.Readlink(at("links/first")); err != nil || to != "../second" {
			t.Errorf("the link is gone: %q, %v", to, err)
		}
		if list := append(names(t, at("real")), names(t, at("links"))...); len(list) != 2 {
			t.Errorf("files %v", list)
		}
	}
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := Replace(loop, nil); !errors.As(err, new(*Error)) {
		t.Errorf("a link to itself: %v", err)
	}
}

// What is no file stays what it is.
func TestReplaceRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, folder := filepath.Join(dir, "pipe"), filepath.Join(dir, "folder")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, folder} {
		if err := within(t, func() error { return Replace(name, []byte("x")) }); !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list := names(t, dir); len(list) != 2 {
		t.Errorf("files %v", list)
	}
	// Nor is anything written through what bears the name of the file beside.
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, filepath.Join(dir, ".x.tmp"))); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "x"), []byte("new")); err == nil {
		t.Error("a link in the place of the file beside was followed")
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// What a killed process left, longer than the new contents, is used up.
func TestReplaceAfterKill(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".x.tmp"), []byte("half of something much longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "x"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "x")); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if list := names(t, dir); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}

// A failed call leaves the old file and nothing beside it.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	tmp, err := openLocked(filepath.Join(dir, ".x.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(tmp, []byte("new"), filepath.Join(dir, "no", "folder")); err == nil {
		t.Error("renamed into a folder that is not there")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if err := errors.Join(os.Remove(tmp.Name()), tmp.Close()); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		return // may write everywhere
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file, []byte("new")); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// Calls at the same time take turns: the file is always one of the texts, whole.
func TestReplaceConcurrently(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 20 {
				text := bytes.Repeat([]byte{'a' + byte(i)}, 1000*(1+(i+k)%5))
				if err := Replace(file, text); err != nil {
					t.Error(err)
					return
				}
				got, err := os.ReadFile(file)
				if err != nil || len(got) == 0 || len(got)%1000 != 0 || len(bytes.Trim(got, string(got[:1]))) != 0 {
					t.Errorf("%d bytes, torn, %v", len(got), err)
				}
			}
		})
	}
	group.Wait()
	if list := names(t, dir); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}
