package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/smallfile"
)

// output is a file being written that appears under its name only when it is
// complete: commit renames it, discard leaves nothing. One of the two ends it. What a
// killed process left is removed by the next one that writes the same file.
type output struct {
	io.Writer        // into the outermost layer
	name      string // as the user gave it, for messages
	path      string // final name, links resolved; empty for a stream
	temporary string // name until commit; empty when written in place
	layers    []io.Closer
	buffer    *bufio.Writer
	file      *os.File
}

// createOutput creates path, compressed as its extension says (.gz, .zst,
// .xz). "" and "-" are stdout. A device or a pipe is written in place.
func createOutput(path string, stdout io.Writer) (*output, error) {
	o := &output{}
	if path == "" || path == "-" {
		o.buffer = bufio.NewWriterSize(stdout, 1<<16)
		o.Writer = o.buffer
		return o, nil
	}
	if err := o.create(path); err != nil {
		return nil, err
	}
	o.buffer = bufio.NewWriterSize(inName{o, o.file}, 1<<18)
	o.Writer = o.buffer
	layer, err := compressor(path, o.buffer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), o.discard())
	}
	if layer != nil {
		o.Writer = layer
		o.layers = append(o.layers, layer)
	}
	return o, nil
}

// create opens the file below the buffer.
func (o *output) create(path string) error {
	o.name, o.path = path, path
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s: is a directory; name a file", path)
	case err == nil && !info.Mode().IsRegular():
		o.file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return err
	case err == nil:
		// The rename must replace what a symbolic link leads to, not the link.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		o.path = path
	}
	if o.file, err = smallfile.CreateBeside(path); err == nil {
		o.temporary = o.file.Name()
	}
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return fmt.Errorf("%s: cannot be created: %w", o.name, pe.Err)
	}
	return err
}

// mayCreateIn says why no file can be made in a folder, without making one, which a
// kill would leave there.
func mayCreateIn(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &os.PathError{Op: "create a file in", Path: dir, Err: unix.ENOTDIR}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "create a file in", Path: dir, Err: err}
	}
	return nil
}

// inName writes to the file of an output.
type inName struct {
	*output
	file *os.File
}

// Write implements io.Writer.
func (i inName) Write(p []byte) (int, error) {
	n, err := i.file.Write(p)
	return n, i.renamed(err)
}

// renamed makes an error of the temporary file one of the file that the user
// named.
func (o *output) renamed(err error) error {
	if pe := (*os.PathError)(nil); errors.As(err, &pe) {
		return fmt.Errorf("%s: cannot be written: %w", o.name, pe.Err)
	}
	return err
}

// commit finishes the file and gives it its name.
func (o *output) commit() error {
	err := o.finish()
	if err == nil && o.temporary != "" {
		// A crash after the rename must not leave an empty file.
		err = o.renamed(o.file.Sync())
	}
	if err != nil {
		return errors.Join(err, o.discard())
	}
	if o.file == nil {
		return nil
	}
	if o.temporary != "" { // before it is closed: until then its lock is ours
		err = os.Rename(o.temporary, o.path)
	}
	if err != nil {
		if le := (*os.LinkError)(nil); errors.As(err, &le) {
			err = le.Err // the temporary name means nothing to the user
		}
		return errors.Join(fmt.Errorf("%s: cannot be put in place: %w", o.name, err), o.discard())
	}
	return o.renamed(o.file.Close())
}

// finish flushes every layer.
func (o *output) finish() error {
	for _, layer := range o.layers {
		if err := layer.Close(); err != nil {
			return err
		}
	}
	return o.buffer.Flush()
}

// discard drops what was written.
func (o *output) discard() error {
	if o.file == nil {
		return nil
	}
	return errors.Join(o.remove(), o.file.Close()) // its lock is ours until it is closed
}

func (o *output) remove() error {
	if o.temporary == "" {
		return nil
	}
	return os.Remove(o.temporary)
}

// compressions are the extensions that compress.
var compressions = []string{".gz", ".zst", ".xz"}

// compressor is the layer that path's extension asks for, or nil.
func compressor(path string, w io.Writer) (io.WriteCloser, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	case ".xz":
		return xz.NewWriter(w)
	}
	return nil, nil
}
