package pci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// InUseError says why a drive is not taken from the kernel.
type InUseError struct {
	Address string
	Uses    []Use
}

func (e *InUseError) Error() string {
	var s []string
	for _, u := range e.Uses {
		s = append(s, u.String())
	}
	return fmt.Sprintf("pci: %s holds data: %s: unmount and wipe it (wipefs), or force it if that data may be lost", e.Address, strings.Join(s, "; "))
}

// BindError says that a function did not change hands.
type BindError struct {
	Address string
	Want    string // driver; "" means none
	Has     string // driver that has it now
	Remedy  string
	Err     error
}

func (e *BindError) Error() string {
	name := func(d string) string {
		if d == "" {
			return "no driver"
		}
		return "driver " + d
	}
	s := fmt.Sprintf("pci: %s should have %s and has %s", e.Address, name(e.Want), name(e.Has))
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": " + e.Remedy
}

// Unwrap gives the cause.
func (e *BindError) Unwrap() error { return e.Err }

// Bind gives the function to a driver, or to none when driver is "". A drive that is in use, or that holds data of a known kind, is
// refused with an [*InUseError] unless force is set; even then a mounted file system's data may be lost. Binding to the driver that has it
// already does nothing. Needs root.
func (t Tree) Bind(address, driver string, force bool) error {
	f, err := t.Find(address)
	if err != nil {
		return err
	}
	if f.Driver == driver {
		return nil
	}
	if !force {
		uses, err := t.Uses(f)
		if err != nil {
			return err
		}
		if len(uses) > 0 {
			return &InUseError{f.Address, uses}
		}
	}
	if driver != "" {
		if _, err := os.Stat(filepath.Join(t.Sys, "bus/pci/drivers", driver)); err != nil {
			return &BindError{f.Address, driver, f.Driver, "load the driver with: modprobe " + driver, err}
		}
	}
	if err := t.move(f, driver); err != nil {
		// A function that is left without a driver would be lost to the machine: give it back.
		return errors.Join(err, t.restore(f, driver))
	}
	return nil
}

// Release gives the function back to the driver that the kernel would choose itself, nvme.
func (t Tree) Release(address string) error {
	f, err := t.Find(address)
	if err != nil {
		return err
	}
	if f.Driver == "nvme" {
		return nil
	}
	if err := t.unbind(f); err != nil {
		return err
	}
	// A line feed clears the override.
	if err := t.write(f, "driver_override", "\n"); err != nil {
		return err
	}
	return t.probe(f, "nvme")
}

// move unbinds, says which driver alone may have the function, and has the kernel look for it.
func (t Tree) move(f Function, driver string) error {
	if err := t.unbind(f); err != nil {
		return err
	}
	if driver == "" {
		return nil
	}
	if err := t.write(f, "driver_override", driver); err != nil {
		return err
	}
	return t.probe(f, driver)
}

// restore undoes a failed move; without a driver before there is nothing to restore.
func (t Tree) restore(f Function, failed string) error {
	if f.Driver == "" || failed == "" || t.link(f.Address, "driver") != "" {
		return nil
	}
	if err := t.write(f, "driver_override", "\n"); err != nil {
		return err
	}
	return t.probe(f, f.Driver)
}

func (t Tree) unbind(f Function) error {
	if t.link(f.Address, "driver") == "" {
		return nil
	}
	return t.write(f, "driver/unbind", f.Address)
}

// probeTime bounds how long the kernel may take to bind; writing drivers_probe mostly returns after it.
const probeTime = 5 * time.Second

func (t Tree) probe(f Function, driver string) error {
	if err := t.put(filepath.Join(t.Sys, "bus/pci/drivers_probe"), f.Address); err != nil {
		return t.failure(f, driver, err)
	}
	for end := time.Now().Add(probeTime); ; time.Sleep(10 * time.Millisecond) {
		if t.link(f.Address, "driver") == driver {
			return nil
		}
		if time.Now().After(end) {
			return &BindError{f.Address, driver, t.link(f.Address, "driver"), "the driver did not take it: see the kernel's log (dmesg)", nil}
		}
	}
}

func (t Tree) write(f Function, name, value string) error {
	if err := t.put(filepath.Join(t.devices(), f.Address, name), value); err != nil {
		return t.failure(f, strings.TrimSpace(value), err)
	}
	return nil
}

func (t Tree) failure(f Function, driver string, err error) error {
	remedy := "see the kernel's log (dmesg)"
	if errors.Is(err, os.ErrPermission) {
		remedy = "run as root"
	}
	return &BindError{f.Address, driver, t.link(f.Address, "driver"), remedy, err}
}

// put writes to a file that must be there already, in one write, as sysfs wants it.
func (t Tree) put(path, value string) error {
	if t.Write != nil {
		return t.Write(path, value)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
