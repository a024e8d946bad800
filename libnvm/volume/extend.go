package volume

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// CheckFiles refuses, with a *NotEmptyError, files that hold something else than a volume, as
// Create without Force does: before any file of a list is made or extended. It changes
// nothing. What cannot be looked at, or is in use, is for OpenFiles to report.
func CheckFiles(paths []string) error {
	for _, path := range paths {
		if err := checkFile(path, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// checkFile refuses a file of less than size bytes.
func checkFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() >= size {
		return nil
	}
	// Who makes a volume there holds the lock: what it has written so far is no reason.
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil
	}
	_, err = mayExtend(path, f)
	return err
}

// mayExtend says whether a file may get a larger size. One that holds a volume need not,
// since a volume keeps its size, and what holds anything else is somebody's.
func mayExtend(path string, content io.ReaderAt) (bool, error) {
	head := make([]byte, 2*dirOffset)
	if _, err := content.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("volume: what %s holds: %w", path, err)
	}
	if string(head[:8]) == labelMagic || string(head[labelSize:][:8]) == labelMagic {
		return false, nil
	}
	if found := foreign(head); found != "" {
		return false, &NotEmptyError{path, found}
	}
	return true, nil
}
