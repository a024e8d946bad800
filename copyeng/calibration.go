package copyeng

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// CalibrationVersion is the version of the file's schema.
const CalibrationVersion = 1

// Calibration is the measured curves of one GPU under one driver.
type Calibration struct {
	Version  int       `yaml:"version"`
	GPU      GPUName   `yaml:"gpu"`
	Driver   string    `yaml:"driver"`   // the CUDA version of the driver, such as 13.0
	Measured time.Time `yaml:"measured"` // when
	Link     Link      `yaml:"link"`
	// Curves has one entry for each direction and page size, times of every
	// path at growing numbers of pages.
	Curves []Curve `yaml:"curves"`
}

// GPUName identifies a GPU.
type GPUName struct {
	Name string `yaml:"name"`
	UUID string `yaml:"uuid"`
	PCI  string `yaml:"pci"`
}

// Link is the rate of large pinned copies, in GB/s (10^9 bytes).
type Link struct {
	ToDevice float64 `yaml:"to_device_gbps"`
	ToHost   float64 `yaml:"to_host_gbps"`
	BothWays float64 `yaml:"both_ways_gbps"` // sum of both directions at once
}

// Curve is what was measured for one direction and page size.
type Curve struct {
	Direction string `yaml:"direction"` // to-device, to-host, both-ways
	Page      int    `yaml:"page_bytes"`
	Pages     []int  `yaml:"pages"` // numbers of pages, growing
	// Micros has, for every path, the median time at each number of pages.
	// A list may be shorter than Pages: a path that had fallen far behind
	// was not measured further.
	Micros map[Path][]float64 `yaml:"us"`
}

// CalibrationError says what is wrong with a calibration.
type CalibrationError struct {
	Where string // the file, or "calibration"
	What  []string
}

// Error gives all faults in one line.
func (e *CalibrationError) Error() string {
	return e.Where + ": " + strings.Join(e.What, "; ") + ": run tritier calibrate"
}

// Check returns all faults of a calibration together, as a *CalibrationError.
func (c *Calibration) Check() error {
	var bad []string
	if c.Version != CalibrationVersion {
		bad = append(bad, fmt.Sprintf("version %d, this program reads %d", c.Version, CalibrationVersion))
	}
	if len(c.Curves) == 0 {
		bad = append(bad, "no curves")
	}
	for i := range c.Curves {
		bad = append(bad, c.Curves[i].faults()...)
	}
	for _, d := range []Direction{ToDevice, ToHost} {
		if len(c.curvesOf(d)) == 0 {
			bad = append(bad, "no curve "+d.String())
		}
	}
	if len(bad) > 0 {
		return &CalibrationError{Where: "calibration", What: bad}
	}
	return nil
}

func (c *Curve) faults() (bad []string) {
	where := fmt.Sprintf("curve %s of %d bytes: ", c.Direction, c.Page)
	paths := gpuPaths
	switch c.Direction {
	case ToDevice.String(), ToHost.String():
	case bothWays.String():
		paths = exchangePaths
	default:
		bad = append(bad, where+"no such direction")
	}
	if !validPage(c.Page) {
		bad = append(bad, where+"page size is no power of two in range")
	}
	if len(c.Pages) == 0 || c.Pages[0] < 1 || !slices.IsSorted(c.Pages) || len(slices.Compact(slices.Clone(c.Pages))) != len(c.Pages) {
		bad = append(bad, where+"numbers of pages must grow from 1")
	}
	whole := false
	for p, us := range c.Micros {
		if !slices.Contains(paths, p) {
			bad = append(bad, where+"no path "+string(p))
		}
		if len(us) == 0 || len(us) > len(c.Pages) {
			bad = append(bad, where+string(p)+" has another number of times than pages")
		}
		if slices.ContainsFunc(us, func(v float64) bool { return !(v > 0) || math.IsInf(v, 0) }) {
			bad = append(bad, where+string(p)+" has a time that is not positive")
		}
		whole = whole || len(us) == len(c.Pages)
	}
	if !whole {
		bad = append(bad, where+"no path was measured at every number of pages")
	}
	return bad
}

// curvesOf are the curves of a direction by growing page size.
func (c *Calibration) curvesOf(d Direction) []*Curve {
	var list []*Curve
	for i := range c.Curves {
		if c.Curves[i].Direction == d.String() {
			list = append(list, &c.Curves[i])
		}
	}
	slices.SortFunc(list, func(a, b *Curve) int { return a.Page - b.Page })
	return list
}

// Marshal gives the calibration as a YAML file.
func (c *Calibration) Marshal() ([]byte, error) {
	body, err := yaml.MarshalWithOptions(c, yaml.Flow(false), yaml.CustomMarshaler[[]float64](flowFloats), yaml.CustomMarshaler[[]int](flowInts))
	if err != nil {
		return nil, fmt.Errorf("write calibration: %w", err)
	}
	head := "# Times of every copy path on one GPU, in microseconds (medians), measured by \"tritier calibrate\".\n"
	return append([]byte(head), body...), nil
}

// A line per path reads better than a line per number.
func flowFloats(v []float64) ([]byte, error) {
	parts := make([]string, len(v))
	for i, f := range v {
		parts[i] = fmt.Sprintf("%.1f", f)
	}
	return []byte("[" + strings.Join(parts, ", ") + "]"), nil
}

func flowInts(v []int) ([]byte, error) {
	return []byte(strings.ReplaceAll(fmt.Sprint(v), " ", ", ")), nil
}

// ParseCalibration reads a file's contents and checks them.
func ParseCalibration(data []byte) (*Calibration, error) {
	c := new(Calibration)
	if err := yaml.UnmarshalWithOptions(data, c, yaml.Strict()); err != nil {
		return nil, &CalibrationError{Where: "calibration", What: []string{"not readable: " + firstLine(err)}}
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// in puts the name of a file into a fault of its contents.
func in(file string, err error) error {
	var c *CalibrationError
	if errors.As(err, &c) {
		return &CalibrationError{Where: file, What: c.What}
	}
	return fmt.Errorf("%s: %w", file, err)
}
