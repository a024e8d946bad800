package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm/soft"
)

// lockPatience is how long a lock that is taken is tried again: the kernel gives
// up those of a killed process only when its last thread and its I/O are gone.
const lockPatience = 500 * time.Millisecond

// retryLock calls try until it succeeds, says that trying is of no use, or
// lockPatience is over.
func retryLock(ctx context.Context, try func() (again bool, err error)) error {
	for end := time.Now().Add(lockPatience); ; {
		again, err := try()
		if err == nil || !again || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// fileID names a file, or the device behind a node, within this host.
type fileID struct {
	dev, ino uint64
	device   bool
}

// openHere are the files that this process serves. The lock of a file does not
// tell whether its holder is this process.
var openHere = struct {
	sync.Mutex
	paths map[fileID]string
}{paths: map[fileID]string{}}

// identifyFile is the file's id; false when it cannot be looked at.
func identifyFile(path string) (fileID, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fileID{dev: uint64(st.Rdev), device: true}, true
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino}, true
}

// openedHere returns the error for a file that this process serves already.
func openedHere(path string) error {
	id, ok := identifyFile(path)
	openHere.Lock()
	defer openHere.Unlock()
	if first, taken := openHere.paths[id]; ok && taken {
		return &LockedError{path, fmt.Sprintf("this process (%d), which opened it already as %s", os.Getpid(), first), ErrOpenHere}
	}
	return nil
}

// lockFile opens a file, and its lock, as a backend. The function that it
// returns says that this process does not serve the file any more.
func lockFile(ctx context.Context, path string, o soft.FileOptions) (*soft.File, func(), error) {
	var f *soft.File
	err := retryLock(ctx, func() (bool, error) {
		if err := openedHere(path); err != nil {
			return false, err
		}
		var err error
		var inUse *soft.FileInUseError
		if f, err = soft.OpenFile(path, o); errors.As(err, &inUse) {
			return true, &LockedError{path, "another process", err}
		}
		return false, err
	})
	if err != nil {
		return nil, nil, err
	}
	id, ok := identifyFile(path)
	if !ok {
		return f, func() {}, nil
	}
	openHere.Lock()
	defer openHere.Unlock()
	openHere.paths[id] = path
	return f, func() {
		openHere.Lock()
		defer openHere.Unlock()
		delete(openHere.paths, id)
	}, nil
}
