package copyeng

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/internal/yamlfile"
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

// Bounds of what a calibration can hold: far more than Calibrate measures, and
// little enough that a file by mistake is found out.
const (
	maxCurves = directions * (maxShift - minShift + 1) // each direction and page size once
	maxPoints = 1024                                   // numbers of pages of one curve
	maxMicros = 1e9                                    // of one batch
	maxRate   = 1e6                                    // GB/s of a link
	maxText   = 200                                    // bytes of a name
)

// Check returns all faults of a calibration together, as a *CalibrationError.
func (c *Calibration) Check() error {
	var bad []string
	if c.Version != CalibrationVersion {
		bad = append(bad, fmt.Sprintf("version %d, this program reads %d", c.Version, CalibrationVersion))
	}
	for _, x := range []struct{ field, text string }{
		{"gpu.name", c.GPU.Name}, {"gpu.uuid", c.GPU.UUID}, {"gpu.pci", c.GPU.PCI}, {"driver", c.Driver},
	} {
		if len(x.text) > maxText || strings.ContainsFunc(x.text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			bad = append(bad, x.field+" is no name")
		}
	}
	for _, x := range []struct {
		field string
		rate  float64
	}{{"to_device_gbps", c.Link.ToDevice}, {"to_host_gbps", c.Link.ToHost}, {"both_ways_gbps", c.Link.BothWays}} {
		if !(x.rate >= 0 && x.rate <= maxRate) { // NaN neither
			bad = append(bad, fmt.Sprintf("link.%s is %v, not a rate from 0 to %g", x.field, x.rate, maxRate))
		}
	}
	bad = append(bad, c.curveFaults()...)
	if len(bad) > 0 {
		return &CalibrationError{Where: "calibration", What: bad}
	}
	return nil
}

// curveFaults are those of the curves, one by one and among each other.
func (c *Calibration) curveFaults() (bad []string) {
	switch {
	case len(c.Curves) == 0:
		bad = append(bad, "no curves")
	case len(c.Curves) > maxCurves:
		return []string{fmt.Sprintf("%d curves, more than %d", len(c.Curves), maxCurves)}
	}
	type key struct {
		direction string
		page      int
	}
	seen := map[key]bool{}
	for i := range c.Curves {
		x := &c.Curves[i]
		bad = append(bad, x.faults()...)
		if k := (key{x.Direction, x.Page}); seen[k] {
			bad = append(bad, fmt.Sprintf("curve %s of %d bytes: is there twice", x.Direction, x.Page))
		} else {
			seen[k] = true
		}
	}
	for _, d := range []Direction{ToDevice, ToHost} {
		if len(c.curvesOf(d)) == 0 {
			bad = append(bad, "no curve "+d.String())
		}
	}
	return bad
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
	if !growing(c.Pages) {
		bad = append(bad, where+fmt.Sprintf("numbers of pages must grow from 1, to at most %d, and be at most %d", MaxPages, maxPoints))
	}
	whole := false
	for _, p := range slices.Sorted(maps.Keys(c.Micros)) {
		us := c.Micros[p]
		if !slices.Contains(paths, p) {
			bad = append(bad, where+"no path "+string(p))
		}
		if len(us) == 0 || len(us) > len(c.Pages) {
			bad = append(bad, where+string(p)+" has another number of times than pages")
		}
		if slices.ContainsFunc(us, func(v float64) bool { return !(v > 0 && v <= maxMicros) }) { // NaN neither
			bad = append(bad, where+string(p)+fmt.Sprintf(" has a time that is not positive, or above %g", maxMicros))
		}
		whole = whole || len(us) == len(c.Pages)
	}
	if !whole {
		bad = append(bad, where+"no path was measured at every number of pages")
	}
	return bad
}

// growing says whether numbers of pages are in range and each larger than the
// one before.
func growing(pages []int) bool {
	if len(pages) == 0 || len(pages) > maxPoints || pages[0] < 1 || pages[len(pages)-1] > MaxPages {
		return false
	}
	for i := range pages[1:] {
		if pages[i] >= pages[i+1] {
			return false
		}
	}
	return true
}

// CheckFor says whether the calibration was measured on the GPU of that UUID
// with a driver for that version of CUDA ("13.0"): a *CalibrationError if not.
// One of another GPU serves, but is not what the name of a file promises.
func (c *Calibration) CheckFor(uuid, driver string) error {
	var bad []string
	if !strings.EqualFold(c.GPU.UUID, uuid) {
		bad = append(bad, fmt.Sprintf("it was measured on %q, not on %s", c.GPU.UUID, uuid))
	}
	if c.Driver != driver {
		bad = append(bad, fmt.Sprintf("it was measured with a driver for CUDA %q, not %s", c.Driver, driver))
	}
	if len(bad) > 0 {
		return &CalibrationError{Where: "calibration", What: bad}
	}
	return nil
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
		parts[i] = shortFloat(f)
	}
	return []byte("[" + strings.Join(parts, ", ") + "]"), nil
}

// shortFloat writes a time with at least one digit after the point, and with three
// significant ones: less than 0.05 us must not become none.
func shortFloat(v float64) string {
	if v > 0 && v < 1e-3 {
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	digits := 1
	for limit := 10.0; v < limit && digits < 6; limit /= 10 {
		digits++
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	for strings.HasSuffix(text, "0") && !strings.HasSuffix(text, ".0") {
		text = text[:len(text)-1]
	}
	return text
}

func flowInts(v []int) ([]byte, error) {
	return []byte(strings.ReplaceAll(fmt.Sprint(v), " ", ", ")), nil
}

// ParseCalibration reads a file's contents, one YAML document of at most 64 KiB,
// and checks them. Errors are *CalibrationError.
func ParseCalibration(data []byte) (*Calibration, error) {
	unreadable := func(what string) error {
		return &CalibrationError{Where: "calibration", What: []string{"not readable: " + what}}
	}
	if len(data) > maxCalibrationFile {
		return nil, unreadable(fmt.Sprintf("%d bytes are too many (at most %d)", len(data), maxCalibrationFile))
	}
	c := new(Calibration)
	if err := yamlfile.Decode(data, c); errors.Is(err, yamlfile.ErrMore) {
		return nil, unreadable("it holds " + err.Error())
	} else if err != nil && !errors.Is(err, io.EOF) { // an empty one lacks its version
		return nil, unreadable(firstLine(err))
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
