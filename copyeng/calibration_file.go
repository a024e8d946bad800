package copyeng

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

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

var safeName = regexp.MustCompile(`^GPU-[0-9a-fA-F-]{8,64}$`)

// CalibrationFile is where the calibration of a GPU is kept:
// $XDG_CONFIG_HOME/tritier/calibration/GPU-<uuid>-cuda<driver>.yaml, below
// ~/.config by default. A new driver has its own file, since copy paths change
// with it.
func CalibrationFile(uuid, driver string) (string, error) {
	if !safeName.MatchString(uuid) {
		return "", fmt.Errorf("calibration file: %q is no GPU's UUID (GPU-...)", uuid)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("calibration file: %w: set XDG_CONFIG_HOME or HOME", err)
	}
	return filepath.Join(dir, "tritier", "calibration", uuid+"-cuda"+driver+".yaml"), nil
}

// LoadCalibration reads a calibration. errors.Is(err, fs.ErrNotExist) when
// there is no such file.
func LoadCalibration(file string) (*Calibration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	c, err := ParseCalibration(data)
	if err != nil {
		return nil, in(file, err)
	}
	return c, nil
}

// Save writes the calibration, whole or not at all: into a new file beside,
// synced, then renamed over the old one. It creates the folder.
func (c *Calibration) Save(file string) (err error) {
	data, err := c.Marshal()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save calibration: %w", err)
		}
	}()
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".calibration-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already after the rename
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// find loads the calibration of a GPU, or the built-in one when there is none.
// source says which it is. A file that cannot be used is an error: the user
// made it, and silently measuring by another would hide that.
func find(uuid, driver string) (c *Calibration, source string, err error) {
	file, err := CalibrationFile(uuid, driver)
	if err == nil {
		c, err = LoadCalibration(file)
		if err == nil {
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
