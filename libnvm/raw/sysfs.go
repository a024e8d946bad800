package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/pci"
)

// IOMMUActiveError says that an IOMMU translates for the drive, so that physical addresses lead nowhere.
type IOMMUActiveError struct {
	Address string
	Domain  string // kind of translation, such as DMA-FQ
}

func (e *IOMMUActiveError) Error() string {
	return fmt.Sprintf("libnvm/raw: an IOMMU translates for %s (domain %s): use VFIO, which is safe, or boot with iommu=pt", e.Address, e.Domain)
}

// function is an unbound PCI function in sysfs.
type function struct {
	dir string

	mu   sync.Mutex // guards bars
	bars map[int][]byte
}

// Bits of the PCI command register.
const (
	commandOffset    = 4
	commandMemory    = 1 << 1
	commandBusMaster = 1 << 2
)

// openFunction takes the function from its driver when asked to, and lets it decode its registers and reach memory.
func openFunction(tree pci.Tree, address string, o Options) (*function, error) {
	f, err := tree.Find(address)
	if err != nil {
		return nil, fmt.Errorf("libnvm/raw: %w", err)
	}
	dir := filepath.Join(tree.Sys, "bus/pci/devices", f.Address)
	if err := translated(f, dir); err != nil {
		return nil, err
	}
	switch {
	case o.Bind:
		if err := tree.Bind(f.Address, "", o.Force); err != nil {
			return nil, fmt.Errorf("libnvm/raw: %w", err)
		}
	case f.Driver != "":
		return nil, fmt.Errorf("libnvm/raw: %s is in the hands of the driver %s: unbind it first, or set Bind", f.Address, f.Driver)
	}
	fn := &function{dir: dir, bars: map[int][]byte{}}
	if err := fn.enable(true); err != nil {
		return nil, fmt.Errorf("libnvm/raw: %s: %w", f.Address, err)
	}
	if err := fn.command(commandMemory|commandBusMaster, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("libnvm/raw: %s: %w", f.Address, err), fn.close())
	}
	return fn, nil
}

// translated refuses a function whose addresses an IOMMU translates; an identity domain does not.
func translated(f pci.Function, dir string) error {
	if f.Group == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, "iommu_group/type"))
	domain := strings.TrimSpace(string(b))
	if err != nil {
		domain = "unknown"
	}
	if domain == "identity" {
		return nil
	}
	return &IOMMUActiveError{f.Address, domain}
}

// enable counts up or down how often the function was switched on.
func (f *function) enable(on bool) error {
	v := "0"
	if on {
		v = "1"
	}
	return f.write("enable", v)
}

func (f *function) write(name, value string) error {
	file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// command sets and clears bits of the PCI command register.
func (f *function) command(set, clear uint16) error {
	file, err := os.OpenFile(filepath.Join(f.dir, "config"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var b [2]byte
	if _, err := file.ReadAt(b[:], commandOffset); err != nil {
		return err
	}
	binary.LittleEndian.PutUint16(b[:], binary.LittleEndian.Uint16(b[:])&^clear|set)
	_, err = file.WriteAt(b[:], commandOffset)
	return err
}

// bar maps a BAR whole, once.
func (f *function) bar(n int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.bars[n]; ok {
		return b, nil
	}
	path := filepath.Join(f.dir, "resource"+strconv.Itoa(n))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	f.bars[n] = b
	return b, nil
}

// close first ends the function's access to memory. A function that was unplugged has no files any more, which is as good.
func (f *function) close() error {
	var errs []error
	if _, err := os.Stat(f.dir); err == nil {
		errs = append(errs, f.command(0, commandBusMaster), f.enable(false))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.bars {
		errs = append(errs, unix.Munmap(b))
	}
	clear(f.bars)
	return errors.Join(errs...)
}
