package smallfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// maxLinks bounds the symbolic links that are followed, as the kernel does.
	maxLinks = 40
	// lockWait bounds the wait for another process that writes the same file,
	// which takes milliseconds.
	lockWait  = 10 * time.Second
	lockPause = 5 * time.Millisecond
)

// Replace gives a file new contents, whole or not at all: they are written to
// a file beside it and synced, which then takes its name; and the folder is synced, so
// that a crash leaves the old file or the new one. Missing folders are created.
// A symbolic link stays, and what it leads to is replaced. The file beside has
// one fixed name (.NAME.tmp), so that what a killed process left of it is used
// up by the next call; calls for the same file take turns. Something that is no
// regular file is an *Error.
func Replace(file string, data []byte) (err error) {
	if file, err = target(file); err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return &Error{file, "is " + kind(info.Mode()) + ", not a regular file"}
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := openLocked(filepath.Join(dir, "."+filepath.Base(file)+".tmp"))
	if err != nil {
		return err
	}
	if err := write(tmp, data, file); err != nil {
		// Removed before it is closed: until then the lock is ours.
		return errors.Join(err, os.Remove(tmp.Name()), tmp.Close())
	}
	return errors.Join(tmp.Close(), syncFolder(dir))
}

// write fills the file beside and gives it the name.
func write(tmp *os.File, data []byte, file string) error {
	if err := tmp.Truncate(0); err != nil { // what a killed process left
		return err
	}
	_, err := tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// target follows symbolic links to the file that is to be replaced, which need
// not exist.
func target(file string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(file)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // no link, nothing
			return file, nil
		case err != nil:
			return "", err
		case !filepath.IsAbs(to):
			to = filepath.Join(filepath.Dir(file), to)
		}
		file = to
	}
	return "", &Error{file, fmt.Sprintf("leads through more than %d symbolic links", maxLinks)}
}

// openLocked opens or creates a file and locks it. The one that had the lock
// before may have renamed or removed the file meanwhile: then it is another one
// that bears the name.
func openLocked(name string) (*os.File, error) {
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, err
		}
		locked, err := lock(f)
		if err == nil && locked {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, &Error{name, fmt.Sprintf("another process has been writing it for %v", lockWait)}
		}
	}
}

// lock says whether f is locked and still has its name.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
		// A file system without locks: writers at the same time are on their own.
	case err != nil:
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	own, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !own.Mode().IsRegular() {
		return false, &Error{f.Name(), "is " + kind(own.Mode()) + ", not a regular file"}
	}
	return os.SameFile(own, named), nil
}

// syncFolder makes a rename last. File systems that cannot sync a folder say
// EINVAL, and need not.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
