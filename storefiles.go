package tritier

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/volume"
)

// madeFile is a file of a store that this Open has made.
type madeFile struct {
	path string
	info fs.FileInfo
	held bool // this Open has its lock
}

// checkFiles refuses files that hold something else than a store, before any of the store's
// files is made or extended.
func (p *parsed) checkFiles() error {
	if !p.Create || p.readOnly || p.Force {
		return nil
	}
	var paths []string
	for _, u := range p.drives {
		if u.Scheme == drive.File {
			paths = append(paths, u.Path)
		}
	}
	return volume.CheckFiles(paths)
}

// makeFile makes the file of a drive, where that is asked for and nothing has its name.
// What goes wrong is for the opening of the file to say.
func (p *parsed) makeFile(u drive.URI) {
	if !p.Create || p.readOnly || u.Size == 0 {
		return
	}
	f, err := os.OpenFile(u.Path, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if errors.Join(err, f.Close()) == nil {
		p.made = append(p.made, madeFile{path: u.Path, info: info})
	}
}

// hold notes that a drive's file was opened, and is locked.
func (p *parsed) hold(u drive.URI) {
	for i := range p.made {
		if p.made[i].path == u.Path {
			p.made[i].held = true
		}
	}
}

// unmake removes the files that were made for an Open that fails with cause, but for one
// that somebody else was quicker to lock. Call it before the members are closed: their
// locks keep others off.
func (p *parsed) unmake(cause error) error {
	var locked *volume.LockedError
	taken := errors.As(cause, &locked)
	for _, m := range p.made {
		if taken && !m.held {
			continue
		}
		if now, err := os.Lstat(m.path); err == nil && os.SameFile(now, m.info) {
			cause = errors.Join(cause, os.Remove(m.path))
		}
	}
	p.made = nil
	return cause
}
