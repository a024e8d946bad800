package tritier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// NoStoreError is an Open of drives that hold no store.
type NoStoreError struct {
	Store string
	Err   error
}

// Error says what to do.
func (e *NoStoreError) Error() string {
	return fmt.Sprintf("%s holds no tritier store (%v): set Create to make one", e.Store, e.Err)
}

// Unwrap returns what was found instead.
func (e *NoStoreError) Unwrap() error { return e.Err }

// openStore opens the store of a configuration, or makes it; of one that could not be
// made no file stays. ctx ends the service
// threads: it must live until the store is closed.
func openStore(ctx context.Context, p *parsed) (*volume.Volume, error) {
	members, err := openMembers(ctx, p)
	if err != nil {
		return nil, err
	}
	v, err := openVolume(p, members)
	if err != nil {
		return nil, closeMembers(members, p.unmake(err))
	}
	if err := p.fits(v); err != nil {
		return nil, errors.Join(p.unmake(err), v.Close())
	}
	return v, nil
}

func closeMembers(members []volume.Member, err error) error {
	for _, m := range members {
		err = errors.Join(err, m.Close())
	}
	return err
}

// openVolume opens the members' volume or makes one. On an error they stay open.
func openVolume(p *parsed, members []volume.Member) (*volume.Volume, error) {
	var format *volume.FormatError
	if !p.inMemory() {
		v, err := volume.OpenWith(members, volume.OpenOptions{MetadataTimeout: p.Timeout})
		if err == nil || !errors.As(err, &format) {
			return v, err
		}
		if !p.Create {
			return nil, &NoStoreError{p.Store, err}
		}
	}
	v, err := volume.Create(members, volume.Options{PageSize: int(p.PageSize), Checksums: p.Checksums, Force: p.Force, MetadataTimeout: p.Timeout})
	var taken *volume.NotEmptyError
	if errors.As(err, &taken) && format != nil {
		return nil, fmt.Errorf("%w; it was not opened, since %w", err, format)
	}
	return v, err
}

// fits compares what was asked for with the store that is there, and takes over
// its page size.
func (p *parsed) fits(v *volume.Volume) error {
	has := Size(v.PageSize())
	if p.pageSizeAsked && p.PageSize != has {
		return &ConfigError{[]error{fmt.Errorf("page_size: the store has pages of %v, not %v; leave it out, or make a new store", has, p.PageSize)}}
	}
	p.PageSize = has
	if bad := p.checkSizes(); bad != nil {
		return &ConfigError{bad}
	}
	return nil
}

// inMemory says that the store begins empty. checkKinds sees to it that all drives are memory then.
func (p *parsed) inMemory() bool { return len(p.drives) > 0 && p.drives[0].Scheme == drive.Memory }

// parseStore reads the drives of a store.
func parseStore(list string) ([]drive.URI, error) {
	drives, err := drive.ParseList(list)
	if err != nil {
		return nil, err
	}
	if err := checkKinds(drives); err != nil {
		return nil, err
	}
	return drives, nil
}

// checkKinds refuses memory beside drives that keep what they hold. Pages are striped over
// all of them, so that a part of each array would be gone when the store is closed, and the rest be
// no store any more. Files and raw drives may be mixed.
func checkKinds(drives []drive.URI) error {
	memory := func(u drive.URI) bool { return u.Scheme == drive.Memory }
	i := slices.IndexFunc(drives, memory)
	k := slices.IndexFunc(drives, func(u drive.URI) bool { return !memory(u) })
	if i < 0 || k < 0 {
		return nil
	}
	return fmt.Errorf("%v beside %v: pages are striped over all drives, and those in memory are gone when the store is closed: take mem: drives alone, or none", drives[i], drives[k])
}

// openMembers opens the drives.
func openMembers(ctx context.Context, p *parsed) ([]volume.Member, error) {
	if err := p.checkFiles(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var members []volume.Member
	for i, u := range p.drives {
		open := openDrive
		if u.Scheme == drive.File {
			open = openFile
		}
		m, err := open(ctx, p, i, u)
		if err != nil {
			return nil, closeMembers(members, p.unmake(fmt.Errorf("store: %w", err)))
		}
		members = append(members, m)
	}
	return members, nil
}

func (p *parsed) pacer(i int) soft.Pacer {
	if p.model == nil {
		return nil
	}
	return drive.NewPacer(p.model, p.Seed, i, len(p.drives))
}

func openFile(ctx context.Context, p *parsed, i int, u drive.URI) (volume.Member, error) {
	o := volume.FilesOptions{Threads: p.Threads, Force: p.Force, File: soft.FileOptions{BlockSize: u.BlockSize}}
	if p.model != nil {
		o.Pacer = func(int) soft.Pacer { return p.pacer(i) }
	}
	if p.Faults != nil {
		o.Faults = func(int) soft.Faults { return p.Faults(i) }
	}
	if p.Create {
		o.File.Size = int64(u.Size)
	}
	o.File.ReadOnly = p.readOnly
	p.makeFile(u)
	list, err := volume.OpenFiles(ctx, []string{u.Path}, o)
	if err != nil {
		return nil, err
	}
	p.hold(u)
	return list[0], nil
}

// openDrive opens memory or a raw drive.
func openDrive(ctx context.Context, p *parsed, i int, u drive.URI) (volume.Member, error) {
	o := drive.Options{Access: drive.ReadWrite, Threads: p.Threads, Model: p.model, Seed: p.Seed, Index: i, Of: len(p.drives), Faults: p.Faults}
	if p.readOnly {
		o.Access = drive.ReadOnly
	}
	if u.Scheme == drive.PCI {
		o.Model, o.Faults = nil, nil
	}
	d, err := drive.Open(ctx, u.String(), o)
	if err != nil {
		return nil, err
	}
	ns, err := d.Controller.Namespace(1)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n := volume.NamespaceOptions{Close: d.Close, Reset: d.Controller.Reset}
	if u.Scheme == drive.Memory {
		n.NoLock, n.Name = true, fmt.Sprintf("%v (drive %d)", u, i)
	}
	m, err := volume.NewNamespace(d.Controller, ns, n)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return m, nil
}
