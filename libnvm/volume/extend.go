package volume

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"

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
	may, err := mayExtend(path, f)
	if err != nil || !may {
		return err
	}
	return checkRest(path, f, info)
}

const restPiece = 64 << 10

// restBytes bounds what is read of the rest of a file.
var restBytes = int64(1 << 30)

// checkRest refuses a file that holds anything behind the area that checkEmpty looks at, where no
// file system begins, but a file of a program may. It passes over holes, and reads of a
// file with more than restBytes pieces at equal distances. What an interrupted Create leaves
// there is nobody's.
func checkRest(path string, f *os.File, info os.FileInfo) error {
	step := int64(restPiece)
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		step *= max((s.Blocks*512+restBytes-1)/restBytes, 1)
	}
	piece := make([]byte, restPiece)
	for at := int64(2 * dirOffset); at < info.Size(); at += step {
		data, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // holes up to the end
		}
		if err == nil { // else the file system does not say where holes are
			at = data
		}
		n, err := f.ReadAt(piece, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("volume: what %s holds: %w", path, err)
		}
		left := at == 2*dirOffset && n == dirSlot && string(piece[:8]) == dirMagic
		if !left && !allZero(piece[:n]) {
			return &NotEmptyError{path, "data of unknown kind, behind zeroes"}
		}
	}
	return nil
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
