package qemu

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// archive writes the "newc" cpio format that the kernel unpacks as its first file system: a 110-byte ASCII header, the name and the data,
// both padded to 4 bytes.
type archive struct {
	w    *bufio.Writer
	ino  int
	dirs map[string]bool
}

const (
	modeDir    = 0o040755
	modeFile   = 0o100755
	modeDevice = 0o020600
)

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), dirs: map[string]bool{".": true, "/": true}}
}

// entry writes one header and its data; a write error sticks in the buffered writer and comes out of close.
func (a *archive) entry(name string, mode, major, minor int, data []byte) {
	a.ino++
	h := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name)
	a.w.WriteString(h)
	a.pad(len(h))
	a.w.Write(data)
	a.pad(len(data))
}

func (a *archive) pad(n int) { a.w.WriteString("\x00\x00\x00"[:(4-n%4)%4]) }

// mkdir adds d and the folders above it once each.
func (a *archive) mkdir(d string) {
	if !a.dirs[d] {
		a.mkdir(path.Dir(d))
		a.dirs[d] = true
		a.entry(d, modeDir, 0, 0, nil)
	}
}

// addFile copies the host's file src to the absolute path dst.
func (a *archive) addFile(dst, src string) error {
	b, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	dst = strings.TrimPrefix(path.Clean(dst), "/")
	a.mkdir(path.Dir(dst))
	a.entry(dst, modeFile, 0, 0, b)
	return nil
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.w.Flush()
}

// writeInitrd makes an initial RAM disk with init as PID 1, the modules under /modules and further files, by their paths in the guest. It is
// not compressed: unpacking takes the guest longer than reading.
func writeInitrd(out, init string, modules []string, files map[string]string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	a := newArchive(f)
	a.mkdir("dev")
	a.entry("dev/console", modeDevice, 5, 1, nil) // so that PID 1 starts with descriptors 0-2 open
	if err := a.addFile("/init", init); err != nil {
		return err
	}
	for _, m := range modules {
		if err := a.addFile("/modules/"+path.Base(m), m); err != nil {
			return err
		}
	}
	for _, dst := range slices.Sorted(maps.Keys(files)) {
		if err := a.addFile(dst, files[dst]); err != nil {
			return err
		}
	}
	return a.close()
}
