package drive

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/soft"
)

// Block sizes of software drives: the smallest unless direct I/O needs more.
const (
	smallBlock = 512
	largeBlock = 4096
)

// openSoft starts a software controller over memory or a file.
func (d *Drive) openSoft(ctx context.Context, o Options, p part) error {
	cfg := soft.Config{Threads: o.Threads}
	var store soft.Backend
	var err error
	block := d.URI.BlockSize
	if d.URI.Scheme == Memory {
		block = max(block, smallBlock)
		store, err = d.openMemory(block)
		cfg.Serial, cfg.Model = fmt.Sprintf("MEM%d", p.index), "tritier software drive (memory)"
	} else {
		store, block, err = d.openFile(o)
		cfg.Serial, cfg.Model = fileSerial(d.URI.Path), "tritier software drive (file)"
	}
	if err != nil {
		return err
	}
	cfg.Namespaces = []soft.NamespaceConfig{{Backend: store, BlockSize: block, ReadOnly: d.URI.Scheme == File && o.Access == ReadOnly}}
	if o.Model != nil {
		cfg.Pacer = newArrayPacer(o.Model, o.Seed, p)
		d.Model = o.Model.Name
	}
	if o.Faults != nil {
		cfg.Faults = o.Faults(p.index)
	}
	c, err := soft.New(ctx, cfg) // the store is the controller's from here on
	if err != nil {
		return fmt.Errorf("%s: %w", d.URI, err)
	}
	d.Transport, d.about = c, c.Describe()
	d.endings = append(d.endings, c.Close)
	return nil
}

// openMemory refuses what the machine could never hold: memory is used as it is
// written, so the mapping itself would succeed.
func (d *Drive) openMemory(block int) (soft.Backend, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		if all := uint64(info.Totalram) * uint64(info.Unit); d.URI.Size > all {
			return nil, &URIError{d.URI.String(), "this machine has " + units.FormatBytes(all) + " of memory: take less, or a file: file:PATH?size=SIZE"}
		}
	}
	if d.URI.Size < uint64(block) {
		return nil, &URIError{d.URI.String(), fmt.Sprintf("it is smaller than a block of %d bytes", block)}
	}
	d.Fresh = true
	m, err := soft.NewMemory(int64(d.URI.Size))
	if err != nil {
		return nil, err // not m: a nil *soft.Memory would be a Backend that is not nil
	}
	return m, nil
}

// openFile opens the file with the smallest block size that allows O_DIRECT.
func (d *Drive) openFile(o Options) (store soft.Backend, block int, err error) {
	if err := d.create(o.Access); err != nil {
		return nil, 0, err
	}
	open := func(block int) (*soft.File, error) {
		fo := soft.FileOptions{Size: int64(d.URI.Size), BlockSize: block, ReadOnly: o.Access == ReadOnly}
		if !o.Force {
			fo.MayExtend = d.URI.mayExtend
		}
		f, err := soft.OpenFile(d.URI.Path, fo)
		var holds *HoldsError
		if errors.As(err, &holds) {
			return nil, holds
		}
		if err != nil {
			return nil, d.fileError(err)
		}
		return f, nil
	}
	block = max(d.URI.BlockSize, smallBlock)
	f, err := open(block)
	if err != nil {
		return nil, 0, err
	}
	if direct, _ := f.Direct(); !direct && d.URI.BlockSize == 0 {
		if err := f.Close(); err != nil {
			return nil, 0, err
		}
		block = largeBlock
		if f, err = open(block); err != nil {
			return nil, 0, err
		}
	}
	d.hostError = f.HostError
	return f, block, nil
}

// create makes the file where that is asked for, and says what is wrong with
// its absence where it is not. A file that was made for an Open that fails is
// taken away again, and so is one that Discard gives up.
func (d *Drive) create(a Access) error {
	path := d.URI.Path
	if a == ReadOnly || d.URI.Size == 0 {
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.URI.Size == 0:
			return &URIError{d.URI.String(), "no such file; ?size=SIZE creates it when it is written"}
		case errors.Is(err, fs.ErrNotExist):
			return &URIError{d.URI.String(), "no such file; it is created only when it is written"}
		case err != nil:
			return d.fileError(err)
		case a == FreshOnly:
			return &ExistsError{d.URI.String()}
		}
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist) && a == FreshOnly:
		return &ExistsError{d.URI.String()}
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return d.fileError(err)
	}
	d.Fresh = true
	made, err := f.Stat()
	if err != nil {
		return errors.Join(d.fileError(err), os.Remove(path), f.Close())
	}
	d.made = made
	d.endings = append(d.endings, func() error {
		if d.Controller == nil || d.discard.Load() {
			return d.remove()
		}
		return nil
	})
	return f.Close()
}

// remove takes the file away that this Open has made, and no other that has its name
// by now.
func (d *Drive) remove() error {
	now, err := os.Lstat(d.URI.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.fileError(err)
	case !os.SameFile(d.made, now):
		return nil
	}
	return os.Remove(d.URI.Path)
}

// fileError says what to do about a file that may not be opened.
func (d *Drive) fileError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w: run as its owner or as root, or change its permissions", d.URI, err)
	}
	return fmt.Errorf("%s: %w", d.URI, err)
}

// fileSerial gives every path its own serial number, the same each time.
func fileSerial(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(path)) // never fails
	return fmt.Sprintf("FILE%016x", h.Sum64())
}
