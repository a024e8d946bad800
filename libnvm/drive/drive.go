package drive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// Access says what may be written.
type Access uint8

// The accesses.
const (
	// ReadOnly opens files read-only: writes end with an error status. Through
	// nvme: it is a promise of the caller.
	ReadOnly Access = iota
	// FreshOnly writes to what this Open makes: memory, and a file that did not
	// exist. Anything else is an *ExistsError.
	FreshOnly
	// ReadWrite writes to whatever is named, and creates or extends a file that
	// has a size. One that holds what Drive.Content knows is not extended, a
	// *HoldsError, unless Options.Force is set.
	ReadWrite
)

// Options for Attach, Open and OpenList. The zero value reads.
type Options struct {
	Access Access
	// Threads is the number of service threads of a software controller.
	// Default 1.
	Threads int
	// Model paces a software controller as slow as the drives of a model, all of
	// them or, in a list, its share of them. Results are then modelled.
	Model *servicetime.Model
	Seed  uint64 // of the model's latencies
	// Index and Of are the place of a drive that is opened alone in a list of
	// drives: it is then paced as its share of the model, and has its fault plan.
	Index, Of int
	// Faults, if set, gives the fault plan of drive number i of a list.
	Faults func(i int) soft.Faults
	Driver libnvm.Config
	// Force has Bind take a drive, and ReadWrite extend a file, that holds data.
	Force bool

	// What follows is for nvme: only.

	// Bind takes the drive from the kernel's driver and gives it back at Close.
	// A drive that holds data is refused unless Force is set.
	Bind bool
	// UnsafeRaw reaches the drive without VFIO and without an IOMMU,
	// UnsafeNoIOMMU through VFIO without one; see raw.Warning for what they risk.
	UnsafeRaw, UnsafeNoIOMMU bool
}

// ExistsError says that something is not overwritten since it was there before.
type ExistsError struct{ URI string }

func (e *ExistsError) Error() string {
	return e.URI + " exists and would be overwritten"
}

// HoldsError says that a file is not extended since it holds what somebody may miss.
// It is unchanged.
type HoldsError struct{ URI, What string }

func (e *HoldsError) Error() string {
	return fmt.Sprintf("%s holds a %s and would be overwritten", e.URI, e.What)
}

// Registers are controller properties as they were before the drive was brought up.
type Registers struct {
	CAP              uint64
	VS, CC, CSTS     uint32
	AQA              uint32
	ASQ, ACQ         uint64
	CMBLOC, CMBSZ    uint32
	BytesInBAR0      int
	UnreachableByBus bool // every property reads all ones
}

// Drive is an opened drive. Close it when nobody uses it any more. Its methods
// may be called from any goroutine, but Close and BringUp only from one.
type Drive struct {
	URI        URI
	Transport  libnvm.Transport
	Controller *libnvm.Controller // nil between Attach and BringUp
	Found      Registers          // before BringUp
	Fresh      bool               // nothing of value was there before this Open
	Model      string             // name of the model that paces it; results are then modelled

	about     []string
	hostError func() error // of the file, nil for what is none
	discard   atomic.Bool
	made      fs.FileInfo // the file that this Open has made, or nil
	config    libnvm.Config
	endings   []func() error // run in reverse order
	closed    bool
	closeOnce sync.Once
	closeErr  error
}

// Open opens the drive that uri names and brings its controller up. ctx ends a
// software controller's service threads: keep it alive until Close. A drive whose
// context has ended is gone, as if unplugged: requests fail, and Close gives
// everything back at once, without the flush of a shutdown.
func Open(ctx context.Context, uri string, o Options) (*Drive, error) {
	d, err := Attach(ctx, uri, o)
	if err != nil {
		return nil, err
	}
	if err := d.BringUp(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Attach opens the drive that uri names without touching its controller, so
// that the registers can be looked at as they are. BringUp does the rest.
func Attach(ctx context.Context, uri string, o Options) (*Drive, error) {
	u, err := Parse(uri)
	if err != nil {
		return nil, err
	}
	return attach(ctx, u, o, part{o.Index, max(o.Of, 1)})
}

// OpenList opens the drives of a list (see ParseList) and brings them up. With
// a model, each stands for an equal share of the model's drives.
func OpenList(ctx context.Context, list string, o Options) ([]*Drive, error) {
	us, err := ParseList(list)
	if err != nil {
		return nil, err
	}
	if o.Model != nil && o.Model.Drives.Count%len(us) != 0 {
		return nil, &URIError{list, fmt.Sprintf("model %s has %d drives, which cannot be shared out evenly to %d", o.Model.Name, o.Model.Drives.Count, len(us))}
	}
	if err := checkFiles(us, o); err != nil {
		return nil, err
	}
	var ds []*Drive
	for i, u := range us {
		d, err := attach(ctx, u, o, part{i, len(us)})
		if err == nil {
			ds = append(ds, d)
			err = d.BringUp()
		}
		if err != nil {
			return nil, errors.Join(err, CloseAll(ds))
		}
	}
	return ds, nil
}

// CloseAll closes every drive.
func CloseAll(ds []*Drive) error {
	var errs []error
	for _, d := range ds {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// part is the place of a drive in a list.
type part struct{ index, of int }

func attach(ctx context.Context, u URI, o Options, p part) (*Drive, error) {
	if u.Scheme != PCI && (o.UnsafeRaw || o.UnsafeNoIOMMU || o.Bind) {
		return nil, &URIError{u.String(), "raw access and binding are for nvme: drives only"}
	}
	d := &Drive{URI: u, config: o.Driver}
	open := d.openSoft
	if u.Scheme == PCI {
		open = d.openPCI
	}
	if err := open(ctx, o, p); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.look()
	return d, nil
}

// look reads the properties before anything changes them.
func (d *Drive) look() {
	r := d.Transport.Registers()
	f := &d.Found
	f.CAP, f.VS, f.CC, f.CSTS = r.Read64(0x00), r.Read32(0x08), r.Read32(0x14), r.Read32(0x1c)
	f.AQA, f.ASQ, f.ACQ = r.Read32(0x24), r.Read64(0x28), r.Read64(0x30)
	f.CMBLOC, f.CMBSZ, f.BytesInBAR0 = r.Read32(0x38), r.Read32(0x3c), r.Len()
	f.UnreachableByBus = f.CSTS == 1<<32-1 && f.CAP == 1<<64-1
}

// BringUp brings the controller up: whatever it did before is ended by a reset.
func (d *Drive) BringUp() error {
	if d.closed {
		return fmt.Errorf("%s: %w", d.URI, libnvm.ErrClosed)
	}
	if d.Controller != nil {
		return nil
	}
	c, err := libnvm.Open(d.Transport, d.config)
	if err != nil {
		return fmt.Errorf("%s: %w", d.URI, err)
	}
	d.Controller = c
	if d.URI.Scheme == PCI {
		d.about = append(d.about, fmt.Sprintf("%s, serial %s", c.Info().Model, c.Info().Serial))
	}
	d.endings = append(d.endings, c.Close)
	return nil
}

// Describe says in one line what the drive is and how it is reached.
func (d *Drive) Describe() string {
	s := strings.Join(d.about, "; ")
	if d.Model != "" {
		s += "; paced as modelled by " + d.Model
	}
	return s
}

// HostError is the system's error behind the last failed operation on a file, such
// as "no space left on device", or nil.
func (d *Drive) HostError() error {
	if d.hostError == nil {
		return nil
	}
	return d.hostError()
}

// Discard lets Close remove the file that this Open has made, if it made one: for
// a caller that could not fill it with what it was made for, or that needs it no more.
func (d *Drive) Discard() { d.discard.Store(true) }

// Abandon is Close for a drive that something may still use, so that it has to stay
// open until the process ends: it does what Discard asked for, and nothing else.
func (d *Drive) Abandon() error {
	if d.made == nil || !d.discard.Load() {
		return nil
	}
	return d.remove()
}

// Close shuts the controller down and gives everything back. A second Close
// does nothing.
func (d *Drive) Close() error {
	d.closeOnce.Do(func() {
		d.closed = true
		var errs []error
		for i := len(d.endings) - 1; i >= 0; i-- {
			errs = append(errs, d.endings[i]())
		}
		d.closeErr = errors.Join(errs...)
	})
	return d.closeErr
}
