package drive

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/raw"
	"github.com/tritier/tritier/libnvm/vfio"
)

// openPCI opens a raw drive.
func (d *Drive) openPCI(_ context.Context, o Options, _ part) error {
	switch {
	case o.UnsafeRaw && o.UnsafeNoIOMMU:
		return errors.New("raw access and VFIO's no-IOMMU mode exclude each other: choose one")
	case o.Model != nil || o.Faults != nil:
		return &URIError{d.URI.String(), "a model and faults are for software drives (mem:, file:)"}
	case o.Access == FreshOnly:
		return &ExistsError{d.URI.String()}
	}
	tree := pci.Host()
	f, err := tree.Find(d.URI.Path)
	if err != nil {
		return err
	}
	if o.Bind && f.Driver == "nvme" {
		d.endings = append(d.endings, func() error { return giveBack(tree, f.Address) })
	}
	tr, how, err := openTransport(f.Address, o)
	if err != nil {
		return err
	}
	d.Transport = tr
	d.endings = append(d.endings, tr.Close)
	d.about = []string{fmt.Sprintf("PCI drive %s through %s", f.Address, how)}
	return nil
}

func openTransport(address string, o Options) (libnvm.Transport, string, error) {
	unsafe := raw.Options{AllowUnsafe: true, Bind: o.Bind, Force: o.Force}
	switch {
	case o.UnsafeRaw:
		t, err := raw.Open(address, unsafe)
		if err != nil {
			return nil, "", err
		}
		return t, "sysfs, without an IOMMU (unsafe)", nil
	case o.UnsafeNoIOMMU:
		t, err := raw.OpenNoIOMMU(address, unsafe)
		if err != nil {
			return nil, "", err
		}
		return t, "VFIO without an IOMMU (unsafe)", nil
	}
	t, err := vfio.Open(address, vfio.Options{Bind: o.Bind, Force: o.Force})
	if err != nil {
		return nil, "", err
	}
	return t, "VFIO (" + t.Name() + ")", nil
}

// giveBack returns a drive that was taken from the kernel's driver. One that
// was never taken is left alone.
func giveBack(tree pci.Tree, address string) error {
	f, err := tree.Find(address)
	if err != nil {
		return err
	}
	if f.Driver == "nvme" {
		return nil
	}
	return tree.Release(address)
}
