package volume

import (
	"context"
	"errors"
	"io"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// FilesOptions are the choices at OpenFiles.
type FilesOptions struct {
	File soft.FileOptions // of each file; Size creates it
	// Force extends files to the size whatever they hold. Without it, one that holds a
	// volume keeps its size, and one that is shorter and holds anything else
	// gives a *NotEmptyError, unchanged.
	Force bool
	// Threads is the number of service threads per file: 1 when zero.
	Threads int
	// Model paces each file as one drive of it. Results are then modelled.
	Model *servicetime.Model
	Seed  uint64 // of the model's latencies
	// Pacer, if set, paces file number i, instead of Model.
	Pacer func(i int) soft.Pacer
	// Faults, if set, gives the fault plan of file number i.
	Faults func(i int) soft.Faults
	Driver libnvm.Config
}

// OpenFiles makes members of files or block devices, each behind a software
// controller of its own with real queue pairs. A file has no identity but what
// the volume writes to it, so it may be moved. A file that another process uses,
// for half a second on end, gives a *LockedError; one that this process has
// opened already gives one that wraps ErrOpenHere. The context ends the controllers' threads.
func OpenFiles(ctx context.Context, paths []string, o FilesOptions) ([]Member, error) {
	for _, path := range paths { // before any is extended
		if o.Force || o.File.ReadOnly {
			break
		}
		if err := checkFile(path, o.File.Size); err != nil {
			return nil, err
		}
	}
	var members []Member
	for i, path := range paths {
		m, err := openFile(ctx, i, path, &o)
		if err != nil {
			for _, x := range members {
				err = errors.Join(err, x.Close())
			}
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

func openFile(ctx context.Context, i int, path string, o *FilesOptions) (Member, error) {
	file := o.File
	if !o.Force && file.MayExtend == nil {
		file.MayExtend = func(content io.ReaderAt) (bool, error) { return mayExtend(path, content) }
	}
	f, forget, err := lockFile(ctx, path, file)
	if err != nil {
		return nil, err
	}
	cfg := soft.Config{Threads: o.Threads, Namespaces: []soft.NamespaceConfig{{Backend: f, BlockSize: max(o.File.BlockSize, 512)}}}
	if o.Model != nil {
		cfg.Pacer = soft.NewModelPacer(o.Model, o.Seed+uint64(i))
	}
	if o.Pacer != nil {
		cfg.Pacer = o.Pacer(i)
	}
	if o.Faults != nil {
		cfg.Faults = o.Faults(i)
	}
	s, err := soft.New(ctx, cfg) // the file is the controller's from here on
	if err != nil {
		forget()
		return nil, err
	}
	c, err := libnvm.Open(s, o.Driver)
	if err != nil {
		defer forget()
		return nil, errors.Join(err, s.Close())
	}
	shut := func() error {
		defer forget()
		return errors.Join(c.Close(), s.Close())
	}
	ns, err := c.Namespace(1)
	if err != nil {
		return nil, errors.Join(err, shut())
	}
	m, err := NewNamespace(c, ns, NamespaceOptions{Identity: &Identity{}, Name: path, NoLock: true, Close: shut, Reset: c.Reset, HostError: f.HostError})
	if err != nil {
		return nil, errors.Join(err, shut())
	}
	return m, nil
}
