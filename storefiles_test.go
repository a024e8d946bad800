package tritier_test

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/libnvm/volume"
)

// TestFailedCreateLeavesNoFile: files that were made for a store that came to nothing
// go, and those that were there stay as they were.
func TestFailedCreateLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("mine"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	used := "file:" + file("used") + "?size=8MiB"
	defer closeMemory(t, open(t, tritier.Config{Store: used, Create: true, T1: 1 << 20, T2: 1 << 20}))
	for what, c := range map[string]tritier.Config{
		"a file by two names":           {Store: "file:" + file("a") + "?size=8MiB,file:" + dir + "/./a?size=8MiB"},
		"a second drive that is in use": {Store: "file:" + file("a") + "?size=8MiB," + used},
		"a drive too small for a page":  {Store: "file:" + file("a") + "?size=64KiB"},
		"a second drive that fails":     {Store: "file:" + file("a") + "?size=8MiB,file:" + filepath.Join(dir, "absent", "b") + "?size=8MiB"},
		"a drive that holds something":  {Store: "file:" + file("a") + "?size=8MiB,file:" + file("mine") + "?size=8MiB"},
		"a GPU that is not there":       {Store: "file:" + file("a") + "?size=8MiB", GPU: "9999"},
		"kernels that have no GPU":      {Store: "file:" + file("a") + "?size=8MiB", GPU: "9999", Engine: tritier.EngineGPU},
	} {
		c.GPU, c.Create, c.T1, c.T2 = cmp.Or(c.GPU, "none"), true, 1<<20, 1<<20
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

// TestForeignFileIsUntouched: a file of somebody else is refused as it was, size and time
// included, whatever its place in the store, and so are files beside it. It takes Force.
func TestForeignFileIsUntouched(t *testing.T) {
	for name, content := range map[string][]byte{
		"a note": []byte("precious"), "no whole block": bytes.Repeat([]byte("x"), 70_001), "an ext file system": ext(1 << 20), "what begins with zeroes": append(make([]byte, 100_000), 1),
		"what begins with many zeroes": append(make([]byte, 200_000), 1), "what ends behind the store": append(make([]byte, 9<<20), 1),
	} {
		for _, order := range []string{"mine", "empty,mine", "mine,new", "zeroes,new,mine"} {
			dir := t.TempDir()
			at := func(file string) string { return filepath.Join(dir, file) }
			before := map[string]os.FileInfo{}
			for file, bytes := range map[string][]byte{"mine": content, "empty": nil, "zeroes": make([]byte, 5000)} {
				if err := errors.Join(os.WriteFile(at(file), bytes, 0o600), os.Chtimes(at(file), time.Unix(1, 0), time.Unix(1, 0))); err != nil {
					t.Fatal(err)
				}
				before[file], _ = os.Stat(at(file))
			}
			var drives []string
			for file := range strings.SplitSeq(order, ",") {
				size := "?size=8MiB"
				if file == "mine" && strings.HasPrefix(order, "zeroes") && len(content) > 1<<19 {
					size = "" // as it is
				}
				drives = append(drives, "file:"+at(file)+size)
			}
			c := tritier.Config{Store: strings.Join(drives, ","), GPU: "none", Create: true, T1: 1 << 20, T2: 1 << 20}
			m, err := tritier.Open(t.Context(), c)
			if err == nil {
				closeMemory(t, m)
			}
			var taken *volume.NotEmptyError
			if !errors.As(err, &taken) || taken.Member != at("mine") {
				t.Errorf("%s, %s: %v", name, order, err)
			}
			for file, was := range before {
				if now, err := os.Stat(at(file)); err != nil || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) {
					t.Errorf("%s, %s: %s was %d bytes of %v, and is %v, %v", name, order, file, was.Size(), was.ModTime(), now, err)
				}
			}
			if got, err := os.ReadFile(at("mine")); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, %s: the content is another (%v)", name, order, err)
			}
			if _, err := os.Stat(at("new")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s, %s: a file was made: %v", name, order, err)
			}
			if c.Force = true; name == "a note" {
				closeMemory(t, open(t, c))
			}
		}
	}
}

// ext is the beginning of an ext file system.
func ext(size int) []byte {
	b := make([]byte, size)
	b[1080], b[1081] = 0x53, 0xef
	return b
}

// TestStoreKeepsItsSize: the size in a URI makes a file, or extends one of zeroes; the file of a
// store stays as large as it is, and opens.
func TestStoreKeepsItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, make([]byte, 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []string{"8MiB", "16MiB"} {
		closeMemory(t, open(t, tritier.Config{Store: "file:" + path + "?size=" + size, Create: true, T1: 1 << 20, T2: 1 << 20}))
		if info, err := os.Stat(path); err != nil || info.Size() != 8<<20 {
			t.Errorf("after %s: %v, %v", size, info, err)
		}
	}
	c := tritier.Config{Store: "file:" + path + "?size=16MiB,file:" + path + "2?size=16MiB", GPU: "none", Create: true, T1: 1 << 20, T2: 1 << 20}
	var taken *volume.NotEmptyError
	if _, err := tritier.Open(t.Context(), c); !errors.As(err, &taken) || taken.Found != "a volume" {
		t.Errorf("a drive too many: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 8<<20 {
		t.Errorf("after it: %v, %v", info, err)
	}
}

// TestMemoryBesideFile: a store of which Close would lose a part is refused, in whatever order
// its drives are named, and makes nothing. Drives of one kind, and files beside raw drives, are none.
func TestMemoryBesideFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	file := "file:" + path + "?size=8MiB"
	for _, store := range []string{"mem:8MiB," + file, file + ",mem:8MiB", "mem:8MiB,8MiB," + file, file + ",nvme:0000:01:00.0,mem:8MiB", "mem:8MiB,nvme:0000:01:00.0"} {
		c := tritier.Config{Store: store, GPU: "none", Create: true, T1: 1 << 20, T2: 1 << 20}
		m, err := tritier.Open(t.Context(), c)
		if err == nil {
			closeMemory(t, m)
		}
		var bad *tritier.ConfigError
		if !errors.As(err, &bad) || len(bad.Violations) != 1 || !strings.Contains(err.Error(), "store: mem:8MiB beside ") || !strings.Contains(err.Error(), "gone when the store is closed") {
			t.Errorf("%s: %v", store, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file was made: %v", store, err)
		}
		if _, err := tritier.CheckStore(t.Context(), tritier.StoreCheck{Store: store}); err == nil || !strings.Contains(err.Error(), "mem:8MiB") {
			t.Errorf("check of %s: %v", store, err)
		}
	}
	for _, store := range []string{"mem:8MiB,8MiB", "file:a,b", file + ",nvme:0000:01:00.0"} {
		if err := (tritier.Config{Store: store, T1: 1 << 20, T2: 1 << 20}).Check(); err != nil {
			t.Errorf("%s: %v", store, err)
		}
	}
}
