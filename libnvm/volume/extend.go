package volume

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CheckFiles refuses, with a *NotEmptyError, what OpenFiles would refuse to extend, before
// any file of a list is: call it when the files are opened one by one. It changes nothing.
// What cannot be looked at, or is in use, is for OpenFiles to report. A size of 0
// leaves a file out.
func CheckFiles(paths []string, sizes []int64) error {
	for i, path := range paths {
		if sizes[i] == 0 {
			continue
		}
		if err := checkFile(path, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

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
