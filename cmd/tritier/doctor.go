package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/doctor"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
)

// doctorKernels is what this program's kernels ask for: the header of copyeng/copy.ptx, which a test compares.
var doctorKernels = doctor.Kernels{PTX: 63, Compute: 70}

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	dir := "."
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, and how to get what it lacks",
		Long: `Say what this machine can do for tritier: CUDA driver, GPUs, PCIe links, pinned memory, IOMMU
and VFIO, drives, io_uring, and which way each byte would take. Each item is "ok", "limited",
"missing" or "unknown"; what is limited or missing says what that costs and how to get it.

Nothing is changed, no memory of a GPU is used, and no drive is written to; an unnamed file
of 64KiB tries O_DIRECT in --dir. A machine without a GPU is no failure: the exit status
is 0 whatever is missing.`,
		Example: `  tritier doctor
  tritier doctor --dir /data
  tritier doctor --json | jq -r '.sections[].items[] | select(.status != "ok") | "\(.name): \(.remedy)"'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("doctor takes no argument, not %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := checkFolder(dir); err != nil {
				return err
			}
			gpus := gpuinfo.Open()
			defer func() { err = errors.Join(err, gpus.Close()) }()
			r, err := thisMachine(dir, gpus).Collect(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), r)
			}
			return printReport(c.OutOrStdout(), r)
		},
	}
	c.Flags().StringVar(&dir, "dir", dir, "`FOLDER` whose file system is looked at")
	c.Flags().BoolVar(&asJSON, "json", false, "JSON instead of text")
	return c
}

// checkFolder refuses what is not a folder before anything is asked.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--dir: %s is not a folder", dir)
	}
	return nil
}

// thisMachine asks the running machine, with what only this program knows.
func thisMachine(dir string, gpus doctor.GPUReader) doctor.Machine {
	m := doctor.Host(dir, gpus)
	m.Kernels = doctorKernels
	m.Features.GPUInitiated, m.Features.PeerToPeer = bamio.Features()
	m.Driver = func() (*cuda.Driver, error) { return openCUDA() }
	m.Calibration = calibrationState
	m.Drives = func() ([]doctor.Drive, error) {
		return doctorDrives(pci.Host(), func(address string) error { return vfio.Probe(vfio.Kernel(), address) })
	}
	return m
}

// doctorDrives is what nvme list says, for the doctor.
func doctorDrives(tree pci.Tree, probe func(address string) error) ([]doctor.Drive, error) {
	list, err := listDrives(tree, probe)
	if err != nil {
		return nil, err
	}
	drives := make([]doctor.Drive, len(list))
	for i, d := range list {
		state := doctor.DriveBlocked
		switch {
		case d.Usable:
			state = doctor.DriveReady
		case len(d.InUse) > 0:
			state = doctor.DriveInUse
		case probe(d.Address) == nil:
			state = doctor.DriveFree
		}
		drives[i] = doctor.Drive{Address: d.Address, Model: d.Model, State: state, InUse: d.InUse, Advice: d.Advice, NUMANode: d.NUMANode}
	}
	return drives, nil
}

// calibrationState looks for the measured copy curves of a GPU under a driver.
func calibrationState(uuid, driver string) (doctor.Status, string) {
	file, err := copyeng.CalibrationFile(uuid, driver)
	if err != nil {
		return doctor.Unknown, err.Error()
	}
	c, err := copyeng.LoadCalibration(file)
	if err == nil {
		if err = c.CheckFor(uuid, driver); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	switch {
	case err == nil:
		return doctor.OK, fmt.Sprintf("measured %s with CUDA %s: %s", c.Measured.Format("2006-01-02"), c.Driver, file)
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Missing, "none for this GPU and driver"
	default:
		return doctor.Limited, err.Error() // a file that cannot be used
	}
}
