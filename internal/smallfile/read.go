// Package smallfile reads and replaces small text files, such as calibrations
// and presets, so that a wrong name does no harm: what is no regular file, or is
// far too large, is refused before it is read, and a file is replaced whole or
// not at all.
package smallfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Error says why a file was refused. What the system says about a file is an
// *fs.PathError instead.
type Error struct {
	File string
	What string // "is 12 bytes long, ..."
}

// Error gives one line.
func (e *Error) Error() string { return e.File + ": " + e.What }

// Read gives the contents of a regular file of at most limit bytes. A folder, a
// pipe, a device and a longer file are an *Error; nothing is waited for.
func Read(file string, limit int) (data []byte, err error) {
	// Without O_NONBLOCK a pipe would be waited for until somebody writes to it.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read from
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{file, "is " + kind(info.Mode()) + ", not a regular file"}
	}
	if info.Size() > int64(limit) {
		return nil, tooLong(file, info.Size(), limit)
	}
	// The size may be wrong: files of /proc have none, others may grow.
	data, err = io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, tooLong(file, int64(len(data)), limit)
	}
	return data, nil
}

func tooLong(file string, size int64, limit int) error {
	return &Error{file, fmt.Sprintf("is %d bytes long or more, too long for such a file (at most %d)", size, limit)}
}

// kind names what is no regular file.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special"
}
