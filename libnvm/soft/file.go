package soft

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/uring"
)

// IOEngine is how a File reaches the kernel.
type IOEngine uint8

// The I/O engines of a File.
const (
	EngineAuto  IOEngine = iota // io_uring where it works, else the other
	EngineUring                 // io_uring, or an error that says why not
	EngineSync                  // preadv and pwritev by a few goroutines
)

// DirectMode is whether a File bypasses the page cache.
type DirectMode uint8

// The direct modes of a File.
const (
	DirectAuto    DirectMode = iota // O_DIRECT where it works; Describe says where not
	DirectRequire                   // O_DIRECT, or an error that says why not
	DirectOff                       // through the page cache
)

// FileOptions are the choices at OpenFile; the zero value is a good choice for
// a file or device that exists.
type FileOptions struct {
	// Size creates the file or extends it to this many bytes; 0 takes an
	// existing file or device as it is. It never shrinks anything.
	Size int64
	// MayExtend, if set, is asked before a file that holds bytes is extended, under the
	// file's lock: content is what it holds. If the answer is no it is taken as it is,
	// after an error it is not opened. Nothing of it has changed by then.
	MayExtend func(content io.ReaderAt) (bool, error)
	// BlockSize is the namespace's block size: 512 when zero. O_DIRECT needs
	// one that is a multiple of the device's; the size is rounded down to it.
	BlockSize int
	Engine    IOEngine
	Direct    DirectMode
	ReadOnly  bool // writes then fail with StatusWriteProtected
	// Workers is the number of goroutines per channel of EngineSync: the number
	// of operations that it keeps in flight. 16 when zero.
	Workers int
}

// File is a Backend on a file or a block device. It holds an exclusive lock
// (flock, for a device also O_EXCL) while it is open, shared when read-only.
//
// After a failed fdatasync the kernel may have dropped the data that it could
// not write, and the next call would succeed. So every later Flush and FUA
// write fails too, until the file is opened again.
type File struct {
	f        *os.File
	fd       int // of f
	path     string
	size     int64
	o        FileOptions
	align    directAlign // zero when the page cache is used
	noDirect string      // why O_DIRECT is not used
	noUring  string      // why io_uring is not used
	syncLost atomic.Bool // an fdatasync failed
	hostErr  atomic.Pointer[error]
	noZero   atomic.Bool // FALLOC_FL_ZERO_RANGE is not supported
	noPunch  atomic.Bool // FALLOC_FL_PUNCH_HOLE is not supported
}

// A FileInUseError is a file or device that another process holds.
type FileInUseError struct {
	Path string
	Err  error
}

// Error says who may hold it.
func (e *FileInUseError) Error() string {
	return fmt.Sprintf("soft: %s is in use: another process serves it, or it is a device with a mounted file system: %v", e.Path, e.Err)
}

// Unwrap returns the system's error.
func (e *FileInUseError) Unwrap() error { return e.Err }

// OpenFile opens a file or block device as a backend. Anything else is refused
// without being opened, so that no FIFO waits for its other end.
func OpenFile(path string, o FileOptions) (*File, error) {
	if o.BlockSize == 0 {
		o.BlockSize = 512
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.BlockSize < 512 || o.BlockSize > 65536 || o.BlockSize&(o.BlockSize-1) != 0 || o.Workers < 1 || o.Workers > 1024 || o.Size < 0 {
		return nil, fmt.Errorf("soft: %s: block size %d (a power of two from 512 to 65536), %d workers (1 to 1024), size %d: out of range",
			path, o.BlockSize, o.Workers, o.Size)
	}
	b := &File{path: path, o: o}
	if err := b.open(); err != nil {
		return nil, err
	}
	if o.Engine == EngineSync {
		b.noUring = "switched off"
	} else if err := uring.Probe(); err != nil {
		if o.Engine == EngineUring {
			return nil, errors.Join(fmt.Errorf("soft: %s: %w", path, err), b.f.Close())
		}
		b.noUring = err.Error()
	}
	return b, nil
}

// open opens, locks and measures the file.
func (b *File) open() error {
	// O_NONBLOCK is for a path that becomes a FIFO or a terminal after Stat; reads
	// and writes of files and block devices do not heed it.
	flags, lock := unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, unix.LOCK_EX
	if b.o.ReadOnly {
		flags, lock = unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, unix.LOCK_SH
	}
	if b.o.Size > 0 && !b.o.ReadOnly {
		flags |= unix.O_CREAT
	}
	var st unix.Stat_t
	if err := unix.Stat(b.path, &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
		case unix.S_IFBLK:
			flags &^= unix.O_CREAT
			if !b.o.ReadOnly {
				flags |= unix.O_EXCL // refuses a device that is mounted
			}
		default:
			return b.wrongKind()
		}
	}
	f, err := os.OpenFile(b.path, flags, 0o600)
	if errors.Is(err, unix.EBUSY) {
		return &FileInUseError{b.path, err}
	}
	if err != nil {
		return fmt.Errorf("soft: %w", err)
	}
	b.f, b.fd = f, int(f.Fd())
	if err := b.prepare(lock); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

func (b *File) prepare(lock int) error {
	err := unix.Flock(b.fd, lock|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &FileInUseError{b.path, err}
	}
	if err != nil {
		return fmt.Errorf("soft: lock %s: %w", b.path, err)
	}
	if err := b.measure(); err != nil {
		return err
	}
	return b.goDirect()
}

func (b *File) wrongKind() error {
	return fmt.Errorf("soft: %s is neither a file nor a block device", b.path)
}

// measure finds the size and extends a regular file to the one asked for.
func (b *File) measure() error {
	info, err := b.f.Stat()
	if err != nil {
		return fmt.Errorf("soft: %w", err)
	}
	size := info.Size()
	switch mode := info.Mode(); {
	case mode.IsRegular():
		if size < b.o.Size && !b.o.ReadOnly {
			if size, err = b.extend(size); err != nil {
				return err
			}
		}
	case mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0:
		if size, err = b.f.Seek(0, 2); err != nil {
			return fmt.Errorf("soft: size of device %s: %w", b.path, err)
		}
	default:
		return b.wrongKind()
	}
	if size < b.o.Size {
		return fmt.Errorf("soft: %s has %d bytes, %d are asked for", b.path, size, b.o.Size)
	}
	if b.size = size - size%int64(b.o.BlockSize); b.size == 0 {
		return fmt.Errorf("soft: %s has %d bytes, less than one block of %d; give a size to create it", b.path, size, b.o.BlockSize)
	}
	return nil
}

// extend gives a regular file the size asked for, if it may have it, and returns its size.
func (b *File) extend(size int64) (int64, error) {
	if size > 0 && b.o.MayExtend != nil {
		may, err := b.o.MayExtend(b.f)
		if err != nil {
			return 0, err
		}
		if !may {
			b.o.Size = 0 // it is not asked for any more
			return size, nil
		}
	}
	if err := b.f.Truncate(b.o.Size); err != nil {
		return 0, fmt.Errorf("soft: extend %s to %d bytes: %w", b.path, b.o.Size, err)
	}
	return b.o.Size, nil
}

// Size implements Backend.
func (b *File) Size() int64 { return b.size }

// Direct says whether O_DIRECT is in use and, if not, why.
func (b *File) Direct() (bool, string) { return b.noDirect == "", b.noDirect }

// Uring says whether io_uring is in use and, if not, why.
func (b *File) Uring() (bool, string) { return b.noUring == "", b.noUring }

// HostError is the system's error that the last operation to fail has failed
// with, or nil: a status of NVMe says less, such as Capacity Exceeded where the
// host has no space left. It may be called from any goroutine.
func (b *File) HostError() error {
	if p := b.hostErr.Load(); p != nil {
		return fmt.Errorf("%s: %w", b.path, *p)
	}
	return nil
}

// Describe implements Backend.
func (b *File) Describe() string {
	parts := []string{"file " + b.path, "io_uring", "O_DIRECT"}
	if b.noUring != "" {
		parts[1] = fmt.Sprintf("preadv/pwritev on %d goroutines (io_uring: %s)", b.o.Workers, b.noUring)
	}
	if b.noDirect != "" {
		parts[2] = fmt.Sprintf("page cache (O_DIRECT: %s)", b.noDirect)
	}
	return strings.Join(parts, ", ")
}

// Open implements Backend. The caller must be locked to its thread
// (runtime.LockOSThread), as service threads are, until the channel is closed.
func (b *File) Open() (Channel, error) {
	if b.noUring != "" {
		return newSyncChannel(b), nil
	}
	return newUringChannel(b)
}

// Close implements Backend: it gives the lock up.
func (b *File) Close() error {
	if err := b.f.Close(); err != nil {
		return fmt.Errorf("soft: %w", err)
	}
	return nil
}
