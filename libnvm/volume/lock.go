package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// nameLock is an exclusive lock on something that has no file of its own, such
// as a namespace: a file in a directory that all processes of the host share,
// with flock, which the kernel gives up when its holder dies. It holds the
// owner's name for the one who finds it taken. It cannot keep another host from
// a shared namespace.
type nameLock struct{ f *os.File }

// lockDirs are tried in this order.
var lockDirs = []string{"/run/lock", "/var/lock", "/tmp"}

// lockName takes the lock called name in dir, or in the first of lockDirs that
// exists when dir is empty.
func lockName(dir, name string) (*nameLock, error) {
	for _, d := range lockDirs {
		if dir != "" {
			break
		}
		if st, err := os.Stat(d); err == nil && st.IsDir() {
			dir = d
		}
	}
	path := filepath.Join(dir, "tritier-"+safeName(name)+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, fmt.Errorf("volume: lock of %s: %w", name, err)
	}
	if err := retryLock(context.Background(), func() (bool, error) { return tryLock(f, name) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l := &nameLock{f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("volume: lock of %s: %w", name, err), f.Close())
	}
	return l, nil
}

// tryLock takes the lock, or says whether it is worth trying again.
func tryLock(f *os.File, name string) (again bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return false, err
	}
	holder := readOwner(f)
	if holder == owner() {
		return false, &LockedError{name, "this process, which opened it already (" + holder + ")", ErrOpenHere}
	}
	return true, &LockedError{name, holder, err}
}

// safeName keeps a serial number from naming another directory.
func safeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

func readOwner(f *os.File) string {
	p := make([]byte, 256)
	n, err := f.ReadAt(p, 0)
	if n == 0 && err != nil {
		return "another process"
	}
	return strings.TrimSpace(string(p[:n]))
}

// sign writes the owner's name into the file.
func (l *nameLock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(owner()+"\n"), 0)
	return err
}

// release gives the lock up. The file stays: removing it would let two
// processes lock two files of one name.
func (l *nameLock) release() error {
	return errors.Join(l.f.Truncate(0), l.f.Close())
}
