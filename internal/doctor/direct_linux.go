package doctor

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxAlign is the largest alignment that is tried: the largest logical block of drives.
const maxAlign = 64 << 10

// probeDirect writes and reads an unnamed file of dir by O_DIRECT. The file is gone when it is closed.
func probeDirect(dir string) (d Direct, err error) {
	d = Direct{Dir: dir, FileSystem: fileSystem(dir)}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	f, err := unnamed(fd, err, dir)
	if err != nil {
		return d, fmt.Errorf("no file can be made in %s to try it on: %w", dir, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(make([]byte, maxAlign), 0); err != nil {
		return d, fmt.Errorf("no file can be written in %s to try it on: %w", dir, err)
	}
	if err := f.Sync(); err != nil {
		return d, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_DIRECT); err != nil {
		d.Reason = "the file system refuses it (" + err.Error() + ")"
		return d, nil
	}
	for size := 512; size <= maxAlign; size *= 2 {
		if n, err := unix.Pread(int(f.Fd()), aligned(size), 0); err == nil && n == size {
			d.Works, d.Align = true, size
			return d, nil
		}
	}
	d.Reason = "the file system takes the flag, but no read works"
	return d, nil
}

// unnamed makes a file of what O_TMPFILE answered; a file system without it gets a named file, which is removed at once.
func unnamed(fd int, err error, dir string) (*os.File, error) {
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	f, err := os.CreateTemp(dir, ".tritier-doctor-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fileSystems names those that people put data on, by the magic numbers of statfs(2).
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.F2FS_SUPER_MAGIC: "f2fs", 0x2fc12fc1: "zfs",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.FUSE_SUPER_MAGIC: "fuse",
	0x01021997: "9p", 0x6a656a63: "virtiofs", 0x0bd00bd0: "lustre", 0x47504653: "gpfs", 0xff534d42: "cifs", 0xfe534d42: "smb", 0x00c36400: "ceph",
}

func fileSystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	magic := int64(uint32(st.Type))
	if n, ok := fileSystems[magic]; ok {
		return n
	}
	return fmt.Sprintf("type %#x", magic)
}
