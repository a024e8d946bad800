package qemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Modules are the kernel modules a guest loads, each after what it needs. A kernel that has one of them built in, or merged into another,
// comes without its file, and the guest skips it.
var Modules = []string{"irqbypass", "iommufd", "vfio", "vfio_virqfd", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"}

// Install is what a boot needs from the machine.
type Install struct {
	QEMU    string   // path of qemu-system-x86_64
	Kernel  string   // path of the guest's kernel image
	Modules []string // paths of the modules that are there, in load order
	Version string   // kernel version, for reports
}

// MissingError says which part of an [Install] is not there.
type MissingError struct {
	What string
	Err  error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("qemu: %s is missing (%v): run .ci/qemu-setup", e.What, e.Err)
}

// Unwrap gives the cause.
func (e *MissingError) Unwrap() error { return e.Err }

// Dir is the folder that .ci/qemu-setup fills: $TRITIER_QEMU_DIR, or tritier/qemu in the user's cache folder.
func Dir() (string, error) {
	if d := os.Getenv("TRITIER_QEMU_DIR"); d != "" {
		return d, nil
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("qemu: no cache folder, set TRITIER_QEMU_DIR: %w", err)
	}
	return filepath.Join(d, "tritier", "qemu"), nil
}

// Find looks for QEMU in PATH and for the kernel in [Dir]. Its error is a [*MissingError].
func Find() (Install, error) {
	dir, err := Dir()
	if err != nil {
		return Install{}, &MissingError{"the cache folder", err}
	}
	return find(dir)
}

func find(dir string) (in Install, err error) {
	if in.QEMU, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return in, &MissingError{"qemu-system-x86_64", err}
	}
	// The version file is written last, so an interrupted set-up does not count.
	v, err := os.ReadFile(filepath.Join(dir, "version"))
	if err != nil {
		return in, &MissingError{"the guest's kernel", err}
	}
	in.Version = strings.TrimSpace(string(v))
	in.Kernel = filepath.Join(dir, "vmlinuz")
	if _, err := os.Stat(in.Kernel); err != nil {
		return in, &MissingError{"the guest's kernel", err}
	}
	for _, m := range Modules {
		p := filepath.Join(dir, "modules", m+".ko")
		switch _, err := os.Stat(p); {
		case err == nil:
			in.Modules = append(in.Modules, p)
		case !errors.Is(err, os.ErrNotExist):
			return in, &MissingError{"the module " + m, err}
		}
	}
	return in, nil
}

// Required says whether the environment variable REQUIRE, a list with commas, names what: then a test that cannot run must fail.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), what)
}
