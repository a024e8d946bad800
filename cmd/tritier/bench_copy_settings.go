package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/units"
)

// copyDirection is where the pages of a row go.
type copyDirection int

// The directions, in the order of reports.
const (
	copyToDevice copyDirection = iota
	copyToHost
	copyBoth
)

var copyDirectionNames = []string{"to-device", "to-host", "both"}

func (d copyDirection) String() string { return copyDirectionNames[d] }

// text is the direction in a sentence.
func (d copyDirection) text() string {
	return []string{"to the device", "to the host", "both ways at once"}[d]
}

// oneWay is the direction of a batch: of one that is not both ways.
func (d copyDirection) oneWay() copyeng.Direction {
	if d == copyToHost {
		return copyeng.ToHost
	}
	return copyeng.ToDevice
}

// The paths that can be named: those of batches, and those of exchanges.
var (
	batchPaths = []copyeng.Path{
		copyeng.PathMemcpy, copyeng.PathBatch, copyeng.PathBatch2, copyeng.PathBatch4, copyeng.PathZeroCopy,
		copyeng.PathHybrid25, copyeng.PathHybrid50,
	}
	bothPaths = []copyeng.Path{copyeng.PathSequential, copyeng.PathExchange, copyeng.PathTwoBatches}
)

const (
	chooserName = "chooser"
	allPaths    = "all"
)

func pathNames() string {
	names := []string{chooserName, allPaths}
	for _, p := range batchPaths {
		names = append(names, string(p))
	}
	text := strings.Join(names, ", ")
	for _, p := range bothPaths {
		text += ", " + string(p)
	}
	return text + " (the last three both ways)"
}

// copyCell is one row of a sweep.
type copyCell struct {
	direction copyDirection
	page      int // bytes
	pages     int // of each direction
}

// copySettings is a checked command line.
type copySettings struct {
	f          *benchCopyFlags
	directions []copyDirection
	pages      []int
	counts     []int
	chooser    bool
	all        bool
	named      []copyeng.Path
	have       []copyeng.Path // those of GPU and driver, once it is open

	cal       *copyeng.Calibration // nil for the GPU's own
	calSource string
}

func (f *benchCopyFlags) settings(given func(flag string) bool) (*copySettings, error) {
	s := &copySettings{f: f}
	if f.gpu == allGPUs {
		return nil, errors.New("--gpu: bench copy measures one GPU at a time: name one")
	}
	if err := checkCopyFlags(f.runs, f.bytes); err != nil {
		return nil, err
	}
	pages, err := parseSweep("--page", f.pages, sizeQuantity, copyeng.MinPage, copyeng.MaxPage)
	if err != nil {
		return nil, err
	}
	counts, err := parseSweep("--pages", f.counts, countQuantity, 1, copyeng.MaxPages)
	if err != nil {
		return nil, err
	}
	s.pages, s.counts = sortedInts(pages), sortedInts(counts)
	for _, p := range s.pages {
		if p&(p-1) != 0 {
			return nil, fmt.Errorf("--page %s is no power of two", shortBytes(p))
		}
	}
	if err := s.parsePaths(); err != nil {
		return nil, err
	}
	if err := s.parseDirections(given("direction")); err != nil {
		return nil, err
	}
	if err := s.checkRoom(); err != nil {
		return nil, err
	}
	if f.check && !s.chooser {
		return nil, errors.New("--check is about the chooser: add it to --paths")
	}
	if f.plot != "" {
		if f.plot == "-" {
			return nil, errors.New("--plot writes a file: name one; standard output has the table")
		}
		if err := plotDocument.check(f.plot); err != nil {
			return nil, fmt.Errorf("--plot %w", err)
		}
	}
	return s, s.loadCalibration()
}

func sortedInts(list []uint64) []int {
	var out []int
	for _, v := range list {
		out = append(out, int(v))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *copySettings) parsePaths() error {
	for _, name := range s.f.paths {
		p := copyeng.Path(name)
		switch {
		case name == chooserName:
			s.chooser = true
		case name == allPaths:
			s.all = true
		case slices.Contains(batchPaths, p) || slices.Contains(bothPaths, p):
			if !slices.Contains(s.named, p) {
				s.named = append(s.named, p)
			}
		default:
			return fmt.Errorf("--paths: unknown path %q; valid are %s", name, pathNames())
		}
	}
	return nil
}

// parseDirections takes the directions that the paths can serve. One that was
// asked for and cannot be served is an error.
func (s *copySettings) parseDirections(given bool) error {
	for _, name := range s.f.directions {
		i := slices.Index(copyDirectionNames, name)
		if i < 0 {
			return fmt.Errorf("--direction: unknown direction %q; valid are %s", name, strings.Join(copyDirectionNames, ", "))
		}
		d := copyDirection(i)
		if slices.Contains(s.directions, d) {
			continue
		}
		if !s.chooser && !s.all && len(s.pathsFor(d)) == 0 {
			if given {
				return fmt.Errorf("--direction %s: none of --paths %s copies %s", d, strings.Join(s.f.paths, ","), d.text())
			}
			continue
		}
		s.directions = append(s.directions, d)
	}
	slices.Sort(s.directions)
	if len(s.directions) == 0 {
		return errors.New("--direction is empty")
	}
	return nil
}

// pathsFor are the paths of a direction beside the chooser's, in the order of
// reports. all means nothing before the GPU is open.
func (s *copySettings) pathsFor(d copyDirection) (list []copyeng.Path) {
	if d == copyBoth {
		for _, p := range bothPaths {
			if s.all || slices.Contains(s.named, p) {
				list = append(list, p)
			}
		}
		return list
	}
	for _, p := range batchPaths {
		if s.all && slices.Contains(s.have, p) || slices.Contains(s.named, p) {
			list = append(list, p)
		}
	}
	return list
}

// checkPaths learns what GPU and driver have, and refuses a named path that
// they lack.
func (s *copySettings) checkPaths(have []copyeng.Path) error {
	s.have = have
	for _, p := range s.named {
		if slices.Contains(batchPaths, p) && !slices.Contains(have, p) {
			return fmt.Errorf("--paths: this GPU and driver have no path %s (they have %s): it needs a driver for CUDA 12.8", p, joinPaths(have))
		}
	}
	return nil
}

func joinPaths(list []copyeng.Path) string {
	var names []string
	for _, p := range list {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// cells multiplies the lists out, in the order of the tables.
func (s *copySettings) cells() (list []copyCell) {
	for _, d := range s.directions {
		for _, p := range s.pages {
			for _, n := range s.counts {
				list = append(list, copyCell{d, p, n})
			}
		}
	}
	return list
}

// checkRoom wants every cell to leave half of the memory untouched, so that
// pages lie scattered.
func (s *copySettings) checkRoom() error {
	if n := len(s.directions) * len(s.pages) * len(s.counts); n > maxCells {
		return fmt.Errorf("the lists make %d combinations; 1 to %d are possible", n, maxCells)
	}
	need := uint64(s.pages[len(s.pages)-1]) * uint64(s.counts[len(s.counts)-1])
	both := ""
	if slices.Contains(s.directions, copyBoth) {
		need *= 2
		both = ", each way,"
	}
	if need > uint64(s.f.bytes)/2 {
		return fmt.Errorf("--bytes %s: %d pages of %s%s must fit twice: give at least %s, or lower --page or --pages",
			s.f.bytes.String(), s.counts[len(s.counts)-1], shortBytes(s.pages[len(s.pages)-1]), both, units.ExactBytes(2*need))
	}
	return nil
}

// builtinCalibration names the built-in curves.
const builtinCalibration = "builtin"

func (s *copySettings) loadCalibration() (err error) {
	switch name := s.f.calibration; name {
	case "":
		return nil
	case builtinCalibration:
		if s.cal, err = copyeng.Builtin(); err != nil {
			return err
		}
		s.calSource = "built-in curves of an " + s.cal.GPU.Name
	default:
		if s.cal, err = copyeng.LoadCalibration(name); err != nil {
			return fmt.Errorf("--calibration: %w", err)
		}
		s.calSource = fmt.Sprintf("%s: %s, %s, CUDA %s", filepath.Base(name), s.cal.GPU.Name, s.cal.Measured.Format(time.DateOnly), s.cal.Driver)
	}
	return nil
}
