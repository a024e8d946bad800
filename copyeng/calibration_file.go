package copyeng

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/tritier/tritier/internal/smallfile"
)

// maxCalibrationFile bounds the bytes of a file: Calibrate writes ten thousand.
const maxCalibrationFile = 64 << 10

// The curves of the H200 that docs/copy-speed.md describes: better than a fixed
// rule on a GPU that has not been calibrated, and said to be so.
//
//go:embed builtin/h200.yaml
var builtinFile []byte

// Builtin is the calibration that serves GPUs without one of their own.
func Builtin() (*Calibration, error) {
	c, err := ParseCalibration(builtinFile)
	if err != nil {
		return nil, in("built-in calibration", err)
	}
	return c, nil
}

// What may be part of a file's name: neither leaves the folder.
var (
	safeName   = regexp.MustCompile(`^GPU-[0-9a-fA-F-]{8,64}$`)
	safeDriver = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}$`)
)

// CalibrationFile is where the calibration of a GPU is kept:
// $XDG_CONFIG_HOME/tritier/calibration/GPU-<uuid>-cuda<driver>.yaml, below
// ~/.config by default. driver is the version of CUDA that it is for, such as
// 13.0; a new driver has its own file, since copy paths change with it.
func CalibrationFile(uuid, driver string) (string, error) {
	if !safeName.MatchString(uuid) {
		return "", fmt.Errorf("calibration file: %q is no GPU's UUID (GPU-...)", uuid)
	}
	if !safeDriver.MatchString(driver) {
		return "", fmt.Errorf("calibration file: %q is no version of CUDA (such as 13.0)", driver)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("calibration file: %w: set XDG_CONFIG_HOME or HOME", err)
	}
	return filepath.Join(dir, "tritier", "calibration", uuid+"-cuda"+driver+".yaml"), nil
}

// LoadCalibration reads a calibration from a regular file of at most 64 KiB.
// errors.Is(err, fs.ErrNotExist) when there is no such file; a file that holds
// something else is a *CalibrationError.
func LoadCalibration(file string) (*Calibration, error) {
	data, err := smallfile.Read(file, maxCalibrationFile)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	c, err := ParseCalibration(data)
	if err != nil {
		return nil, in(file, err)
	}
	return c, nil
}

// Save writes the calibration, whole or not at all: into a new file beside, which
// is synced and then takes the name; of a symbolic link, that of the file it leads
// to. It creates the folder. Programs that save the same file take turns.
func (c *Calibration) Save(file string) error {
	data, err := c.Marshal()
	if err != nil {
		return err
	}
	if err := smallfile.Replace(file, data); err != nil {
		return fmt.Errorf("save calibration: %w", err)
	}
	return nil
}

// find loads the calibration of a GPU, or the built-in one when there is none.
// source says which it is. A file that cannot be used is an error: the user
// made it, and silently measuring by another would hide that.
func find(uuid, driver string) (c *Calibration, source string, err error) {
	file, err := CalibrationFile(uuid, driver)
	if err == nil {
		c, err = LoadCalibration(file)
		if err == nil {
			if err := c.CheckFor(uuid, driver); err != nil {
				return nil, "", in(file, err)
			}
			return c, fmt.Sprintf("calibrated %s with CUDA %s", c.Measured.Format("2006-01-02"), c.Driver), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	if c, err = Builtin(); err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("built-in curves of an %s, this GPU is not calibrated: run tritier calibrate", c.GPU.Name), nil
}
