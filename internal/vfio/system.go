package vfio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// System is what this package needs of the kernel. Errors are those of the system calls, so that errors.Is finds the errno. Implementations
// are safe for use by several goroutines at once.
type System interface {
	// Open opens a device node for reading and writing.
	Open(path string) (fd int, err error)
	Close(fd int) error
	// Dup makes another descriptor of what fd is.
	Dup(fd int) (int, error)
	// Ioctl passes a structure, which the kernel may write to.
	Ioctl(fd int, request uint32, arg []byte) (int, error)
	// IoctlValue passes a plain number.
	IoctlValue(fd int, request uint32, value uintptr) (int, error)
	// Mmap maps part of a device for reading and writing, shared.
	Mmap(fd int, offset int64, length int) ([]byte, error)
	Munmap(b []byte) error
	// Read reads from an eventfd; the others read and write a device at an offset.
	Read(fd int, b []byte) (int, error)
	Pread(fd int, b []byte, offset int64) (int, error)
	Pwrite(fd int, b []byte, offset int64) (int, error)
	// Eventfd makes a non-blocking event counter.
	Eventfd() (fd int, err error)
	// Readlink and ReadDir look into sysfs; ReadDir gives the names.
	Readlink(path string) (string, error)
	ReadDir(path string) ([]string, error)
	// Access says who may use a device node.
	Access(path string) (Access, error)
	// Memlock is the process's limit of locked memory in bytes (RLIMIT_MEMLOCK).
	Memlock() (uint64, error)
}

// Access is who owns a device node, and its permission bits.
type Access struct {
	UID, GID uint32
	Mode     os.FileMode
}

// Kernel is the System of the running machine.
func Kernel() System { return kernel{} }

type kernel struct{}

func (kernel) Open(path string) (int, error)     { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) }
func (kernel) Close(fd int) error                { return unix.Close(fd) }
func (kernel) Munmap(b []byte) error             { return unix.Munmap(b) }
func (kernel) Readlink(p string) (string, error) { return os.Readlink(p) }

func (kernel) Dup(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

func (kernel) Eventfd() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) }

func (kernel) Mmap(fd int, offset int64, length int) ([]byte, error) {
	return unix.Mmap(fd, offset, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (kernel) Read(fd int, b []byte) (int, error)                 { return unix.Read(fd, b) }
func (kernel) Pread(fd int, b []byte, offset int64) (int, error)  { return unix.Pread(fd, b, offset) }
func (kernel) Pwrite(fd int, b []byte, offset int64) (int, error) { return unix.Pwrite(fd, b, offset) }

func (kernel) ReadDir(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (kernel) Access(path string) (Access, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Access{}, err
	}
	return Access{st.Uid, st.Gid, os.FileMode(st.Mode & 0o777)}, nil
}

func (kernel) Memlock() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	return l.Cur, err
}

// exists tells a missing path from one that cannot be looked at.
func exists(sys System, path string) bool {
	_, err := sys.Access(path)
	return !errors.Is(err, os.ErrNotExist)
}
