package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
)

// The words of the lists.
const (
	byGPU             = "gpu"
	byCPU             = "cpu"
	opRead            = "read"
	opWrite           = "write"
	opMixed           = "mixed"
	patternRandom     = "random"
	patternSequential = "sequential"
)

// Limits of bench io.
const (
	leastIOSize    = 512
	mostIOSize     = 1 << 20
	mostWarps      = 1 << 14
	mostIOQueues   = 128
	warpThreads    = 32
	gpuQueues      = 128       // of all drives together, by default
	defaultPayload = 256 << 20 // bytes that --lanes is chosen for
	mostPayload    = 4 << 30   // what one piece of pinned memory can be
)

// ioCell is one combination of the lists. GPU columns are 0 with the CPU.
type ioCell struct {
	initiator string
	service   int // service threads of a software drive
	queues    int // of each drive, 0 until the drives are open for the default
	op        string
	pattern   string
	size      int // bytes of one I/O
	warps     int
	lanes     int
}

func (x *ioCell) threads() int { return x.warps * warpThreads }

// payload is what is in flight at once in GPU-initiated I/O, in bytes.
func (x *ioCell) payload() uint64 { return uint64(x.warps) * uint64(x.lanes) * uint64(x.size) }

// ioSettings is a checked command line.
type ioSettings struct {
	f      *benchIOFlags
	list   string
	drives []drive.URI
	dev    *cuda.Device // nil without a GPU, or when it is not asked for
	why    string       // why the initiator is not the one that is the default
	chosen bool         // the user has said how many warps
	cells  []ioCell
	ios    uint64 // of one run, 0 when seconds bound it
	model  *servicetime.Model
	faults *faultSwitch
}

func (f *benchIOFlags) settings(c *cobra.Command, list string) (*ioSettings, error) {
	s := &ioSettings{f: f, list: list, chosen: c.Flags().Changed("warps") || c.Flags().Changed("threads")}
	var err error
	if s.drives, err = drive.ParseList(list); err != nil {
		return nil, err
	}
	if err := f.check(c.Flags().Changed); err != nil {
		return nil, err
	}
	if f.ios != "" {
		if s.ios, err = units.ParseCount(f.ios); err != nil {
			return nil, fmt.Errorf("--ios: %w", err)
		}
		if s.ios == 0 {
			return nil, errors.New("--ios 0 measures nothing")
		}
	}
	if f.model != "" {
		if s.model, err = (&benchFlags{model: f.model}).loadModel(); err != nil {
			return nil, err
		}
	}
	if f.faults != "" {
		if s.faults, err = parseFaults(f.faults, f.seed); err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
	}
	if err := s.combinations(); err != nil {
		return nil, err
	}
	if err := s.findGPU(); err != nil {
		return nil, err
	}
	return s, nil
}

// check reports a flag that is out of range, or that excludes another.
func (f *benchIOFlags) check(given func(flag string) bool) error {
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{f.seconds > 0 && f.seconds <= 600, fmt.Sprintf("--seconds %g is not above 0 and at most 600", f.seconds)},
		{f.runs >= 1 && f.runs <= 1000, fmt.Sprintf("--runs %d is not from 1 to 1000", f.runs)},
		{f.reads >= 0 && f.reads <= 100, fmt.Sprintf("--reads %d is not a percentage", f.reads)},
		{f.block >= 1 && f.block <= 32, fmt.Sprintf("--block %d is not from 1 to 32 warps", f.block)},
		{!given("lanes") || f.lanes >= 1 && f.lanes <= warpThreads, fmt.Sprintf("--lanes %d is not from 1 to %d", f.lanes, warpThreads)},
		{f.depth >= 2 && f.depth <= maxDepth, fmt.Sprintf("--depth %d is not from 2 to %d", f.depth, maxDepth)},
		{f.timeout >= 10*time.Millisecond && f.timeout <= time.Hour, fmt.Sprintf("--timeout %v is not from 10ms to 1h", f.timeout)},
		{f.gpu != allGPUs, "--gpu: bench io measures one GPU at a time: name one"},
		{!given("area") || f.area > 0, "--area 0 measures nothing; leave it out for the default"},
		{!given("warps") || !given("threads"), "--warps and --threads say the same (a warp is 32 threads): give one of them"},
		{!given("ios") || !given("seconds"), "--ios and --seconds both say how long a run is: give one of them"},
		{f.plot != "-", "--plot writes a file: name one; standard output has the table"},
	} {
		if !x.ok {
			return errors.New(x.what)
		}
	}
	if f.plot != "" {
		if err := plotDocument.check(f.plot); err != nil {
			return fmt.Errorf("--plot %w", err)
		}
	}
	return nil
}

// oneOf checks the words of a list and takes each once.
func oneOf(flag string, list []string, valid ...string) ([]string, error) {
	var out []string
	for _, w := range list {
		if !slices.Contains(valid, w) {
			return nil, fmt.Errorf("%s: unknown %q; valid are %s", flag, w, strings.Join(valid, ", "))
		}
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is empty", flag)
	}
	return out, nil
}

// ioLists are the lists, checked.
type ioLists struct {
	initiators, ops, patterns     []string
	sizes, warps, queues, service []int
}

func (f *benchIOFlags) lists() (l ioLists, err error) {
	if f.initiators != nil {
		if l.initiators, err = oneOf("--initiator", f.initiators, byGPU, byCPU); err != nil {
			return l, err
		}
	}
	if l.ops, err = oneOf("--op", f.ops, opRead, opWrite, opMixed); err != nil {
		return l, err
	}
	if l.patterns, err = oneOf("--pattern", f.patterns, patternRandom, patternSequential); err != nil {
		return l, err
	}
	unit, flag, counts := 1, "--warps", f.warps
	if f.threads != nil {
		unit, flag, counts = warpThreads, "--threads", f.threads
	}
	f.queues = slices.Clip(f.queues)
	for _, x := range []struct {
		to          *[]int
		flag        string
		list        []string
		of          quantity
		least, most uint64
	}{
		{&l.sizes, "--size", f.sizes, sizeQuantity, leastIOSize, mostIOSize},
		{&l.warps, flag, counts, countQuantity, uint64(unit), uint64(mostWarps * unit)},
		{&l.queues, "--queues", f.queues, countQuantity, 1, mostIOQueues},
		{&l.service, "--service-threads", f.service, countQuantity, 1, 256},
	} {
		if x.list == nil { // --queues alone may be left out
			*x.to = []int{0}
			continue
		}
		list, err := parseSweep(x.flag, x.list, x.of, x.least, x.most)
		if err != nil {
			return l, err
		}
		*x.to = sortedInts(list)
	}
	for i, n := range l.warps {
		if n%unit != 0 {
			return l, fmt.Errorf("--threads %d is no multiple of %d, the threads of a warp", n, unit)
		}
		l.warps[i] = n / unit
	}
	for _, n := range l.sizes {
		if n&(n-1) != 0 {
			return l, fmt.Errorf("--size %s is no power of two", shortBytes(n))
		}
	}
	return l, nil
}

// findGPU takes the GPU that is to submit. The default is the CPU without one.
func (s *ioSettings) findGPU() error {
	asked := s.f.initiators != nil
	if !slices.ContainsFunc(s.cells, func(x ioCell) bool { return x.initiator == byGPU }) {
		if s.f.plot != "" {
			return errors.New("--plot draws rates over GPU threads: it needs --initiator gpu")
		}
		return nil
	}
	devices, err := namedGPUs("bench io --initiator gpu", s.f.gpu)
	if err == nil {
		s.dev = devices[0]
		return nil
	}
	if s.f.plot != "" && !asked {
		return fmt.Errorf("--plot draws rates over GPU threads: leave it out, or get a GPU: %w", err)
	}
	if asked || s.f.gpu != "0" { // what was asked for needs one
		return err
	}
	s.why = "the CPU submits, since there is no GPU that could: " + err.Error()
	s.f.initiators = []string{byCPU}
	return s.combinations()
}
