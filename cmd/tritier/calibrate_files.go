package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/servicetime"
)

// The documents that calibrate writes, by which it tells a file that it may
// replace from one that was named by mistake.
var (
	calibrationDocument = document{[]string{".yaml", ".yml"}, []string{"# times of every copy path"}}
	presetDocument      = document{[]string{".yaml", ".yml"}, []string{"# service times"}}
)

// calibrateFiles are the places that results go to. Files that the user names
// are created before the measurement, so that a wrong name is found at once,
// and appear complete or not at all.
type calibrateFiles struct {
	flags       *calibrateFlags
	base        *servicetime.Model // of the preset; nil without one
	calibration *output            // nil for the place where programs look
	preset      *output            // nil without one
	presetText  []byte
}

// checkFiles looks at the names, and loads the preset that is built upon.
func (f *calibrateFlags) checkFiles(c *cobra.Command) (*calibrateFiles, error) {
	files := &calibrateFiles{flags: f}
	if f.out == "-" || f.preset == "-" {
		return nil, errors.New("--output and --preset write files: name one; standard output has the summary")
	}
	if f.out != "" && f.preset != "" && sameFile(f.out, f.preset) {
		return nil, fmt.Errorf("--output and --preset both write %s: name two files", f.out)
	}
	if f.out != "" {
		if err := calibrationDocument.check(f.out); err != nil {
			return nil, fmt.Errorf("--output %w", err)
		}
	}
	if f.preset == "" {
		if c.Flags().Changed("preset-base") {
			return nil, errors.New("--preset-base is about the drives of a preset: name the preset's file by --preset")
		}
		return files, nil
	}
	if err := presetDocument.check(f.preset); err != nil {
		return nil, fmt.Errorf("--preset %w", err)
	}
	if presetName(f.preset) == "" {
		return nil, fmt.Errorf("--preset %s: the file's name is the preset's: put one before .yaml", f.preset)
	}
	var err error
	files.base, err = loadPresetBase(f.presetBase)
	return files, err
}

// open creates the files.
func (x *calibrateFiles) open(d *cuda.Device) (err error) {
	if x.flags.out != "" {
		if x.calibration, err = createOutput(x.flags.out, nil); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	} else if err := x.tryDefault(d); err != nil {
		return err
	}
	if x.flags.preset != "" {
		if x.preset, err = createOutput(x.flags.preset, nil); err != nil {
			x.discard()
			return fmt.Errorf("--preset: %w", err)
		}
	}
	return nil
}

// tryDefault finds out whether the usual place can be written.
func (x *calibrateFiles) tryDefault(d *cuda.Device) error {
	file, err := copyeng.CalibrationFile(d.UUID(), d.Driver().Version().String())
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = mayCreateIn(dir)
	}
	if err != nil {
		return fmt.Errorf("the calibration of %s belongs into %s, which cannot be written: %w: name a file by --output, or set XDG_CONFIG_HOME", d, dir, err)
	}
	return nil
}

// discard drops the files that save has not finished.
func (x *calibrateFiles) discard() {
	for _, o := range []*output{x.calibration, x.preset} {
		if o != nil {
			_ = o.discard() // what failed before it is what the user hears of
		}
	}
	x.calibration, x.preset = nil, nil
}

// save writes the files and says where they are.
func (x *calibrateFiles) save(cal *copyeng.Calibration) (file, preset string, err error) {
	if o := x.calibration; o != nil {
		data, err := cal.Marshal()
		if err != nil {
			return "", "", err
		}
		x.calibration = nil
		file = x.flags.out
		if err := finish(o, writing(data)); err != nil {
			return "", "", err
		}
	} else {
		if file, err = copyeng.CalibrationFile(cal.GPU.UUID, cal.Driver); err != nil {
			return "", "", err
		}
		if err := cal.Save(file); err != nil {
			return "", "", err
		}
	}
	if o := x.preset; o != nil {
		x.preset = nil
		preset = x.flags.preset
		if err := finish(o, writing(x.presetText)); err != nil {
			return "", "", err
		}
	}
	return file, preset, nil
}

func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}
