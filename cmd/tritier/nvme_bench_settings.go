package main

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
)

// Limits of a sweep.
const (
	maxIOSize     = 16 << 20
	maxDepth      = 1 << 15
	maxQueues     = 128
	maxCells      = 4096
	maxBuffers    = 4 << 30 // bytes of I/O buffers of one combination
	maxRunSeconds = 24 * 3600
	iosSeconds    = 600     // longest run that is bounded by --ios alone
	fillArea      = 1 << 30 // bytes of a drive that are filled and used by default
)

// ioPattern is a workload: where I/Os go and what they do.
type ioPattern struct {
	name      string
	random    bool
	read, mix bool // only reads; reads and writes
}

var workloads = []ioPattern{
	{name: "randread", random: true, read: true}, {name: "randwrite", random: true}, {name: "randmixed", random: true, mix: true},
	{name: "seqread", read: true}, {name: "seqwrite"}, {name: "seqmixed", mix: true},
}

func workloadNames() string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// cell is one combination of a sweep.
type cell struct {
	work   ioPattern
	size   int // bytes of one I/O
	depth  int
	queues int // of each drive
}

// bench is a checked command line, and what came of it.
type bench struct {
	f      *benchFlags
	list   string
	count  int // drives
	cells  []cell
	ios    uint64 // of one run, 0 for no bound
	length time.Duration
	warmup time.Duration
	model  *servicetime.Model
	faults *faultSwitch // nil for none
	stderr io.Writer
	writes bool // something is written, if only to fill a fresh drive

	drives []*drive.Drive
	area   uint64 // bytes of each drive
	rows   []row
	seen   map[string]uint64 // errors of all runs, by status
	resets int               // of queues, likewise
}

func (f *benchFlags) settings(c *cobra.Command, list string) (*bench, error) {
	us, err := drive.ParseList(list)
	if err != nil {
		return nil, err
	}
	b := &bench{f: f, list: list, count: len(us), stderr: c.ErrOrStderr(), warmup: seconds(f.warmup), length: seconds(f.seconds)}
	if err := f.check(); err != nil {
		return nil, err
	}
	given := c.Flags().Changed
	if given("area") && f.area == 0 {
		return nil, errors.New("--area 0 measures nothing; leave it out for the whole drive")
	}
	if f.ios != "" {
		if b.ios, err = units.ParseCount(f.ios); err != nil {
			return nil, fmt.Errorf("--ios: %w", err)
		}
		if b.ios == 0 {
			return nil, errors.New("--ios 0 measures nothing")
		}
		if !given("seconds") {
			b.length = iosSeconds * time.Second
		}
	}
	if f.model != "" {
		if b.model, err = f.loadModel(); err != nil {
			return nil, err
		}
	}
	if f.faults != "" {
		if b.faults, err = parseFaults(f.faults, f.seed); err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
	}
	if b.cells, err = f.combinations(b.count); err != nil {
		return nil, err
	}
	b.writes = f.verify
	for _, c := range b.cells {
		b.writes = b.writes || !c.work.read
	}
	if f.write && !b.writes {
		return nil, errors.New("--write allows overwriting, but the workloads only read: leave it out, or add a workload that writes, or --verify")
	}
	return b, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// check reports a flag that is out of range.
func (f *benchFlags) check() error {
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{f.seconds > 0 && f.seconds <= maxRunSeconds, fmt.Sprintf("--seconds %g is not above 0 and at most %d", f.seconds, maxRunSeconds)},
		{f.warmup >= 0 && f.warmup <= maxRunSeconds, fmt.Sprintf("--warmup %g is not from 0 to %d", f.warmup, maxRunSeconds)},
		{f.runs >= 1 && f.runs <= 1000, fmt.Sprintf("--runs %d is not from 1 to 1000", f.runs)},
		{f.reads >= 0 && f.reads <= 100, fmt.Sprintf("--reads %d is not a percentage", f.reads)},
		{f.threads >= 1 && f.threads <= 256, fmt.Sprintf("--threads %d is not from 1 to 256", f.threads)},
		{f.batch >= 0, fmt.Sprintf("--batch %d is negative", f.batch)},
		{f.timeout >= 10*time.Millisecond && f.timeout <= time.Hour, fmt.Sprintf("--timeout %v is not from 10ms to 1h", f.timeout)},
	} {
		if !x.ok {
			return errors.New(x.what)
		}
	}
	return nil
}

// combinations multiplies the lists out.
func (f *benchFlags) combinations(drives int) ([]cell, error) {
	sizes, err := parseSweep("--size", f.sizes, sizeQuantity, 512, maxIOSize)
	if err != nil {
		return nil, err
	}
	depths, err := parseSweep("--depth", f.depths, countQuantity, 1, maxDepth)
	if err != nil {
		return nil, err
	}
	queues, err := parseSweep("--queues", f.queues, countQuantity, 1, maxQueues)
	if err != nil {
		return nil, err
	}
	var cells []cell
	for _, name := range f.workloads {
		i := slices.IndexFunc(workloads, func(w ioPattern) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--workload: unknown workload %q; valid are %s", name, workloadNames())
		}
		for _, size := range sizes {
			for _, depth := range depths {
				for _, q := range queues {
					if need := size * depth * q * uint64(drives); need > maxBuffers {
						return nil, fmt.Errorf("%s at depth %d in %d queues of %s needs %s of buffers, more than %s: lower one of them",
							units.ExactBytes(size), depth, q, plural(uint64(drives), "drive"), units.FormatBytes(need), units.FormatBytes(maxBuffers))
					}
					cells = append(cells, cell{workloads[i], int(size), int(depth), int(q)})
				}
			}
		}
	}
	if len(cells) == 0 || len(cells) > maxCells {
		return nil, fmt.Errorf("the lists make %d combinations; 1 to %d are possible", len(cells), maxCells)
	}
	return cells, nil
}

// quantity is what the numbers of a list are: how they are read, and written in
// errors.
type quantity struct {
	parse func(string) (uint64, error)
	text  func(uint64) string
}

var (
	sizeQuantity  = quantity{units.ParseBytes, units.ExactBytes}
	countQuantity = quantity{units.ParseCount, func(n uint64) string { return strconv.FormatUint(n, 10) }}
)

// parseSweep reads a list of numbers and of ranges FROM..TO that double.
func parseSweep(flag string, list []string, q quantity, least, most uint64) ([]uint64, error) {
	var out []uint64
	for _, s := range list {
		from, to, isRange := strings.Cut(s, "..")
		if !isRange {
			to = from
		}
		a, err := q.parse(from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		b, err := q.parse(to)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if min(a, b) < least || max(a, b) > most {
			return nil, fmt.Errorf("%s %s is not within %s to %s", flag, s, q.text(least), q.text(most))
		}
		if a > b {
			return nil, fmt.Errorf("%s %s is reversed: write %s..%s", flag, s, to, from)
		}
		for ; a <= b; a *= 2 {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is empty", flag)
	}
	return out, nil
}

// entries is the depth of the queue that a cell needs: room for twice the
// commands in flight, since completions hold entries until the head moves.
func (c cell) entries(maxTransfer int) int {
	commands := c.depth * ((c.size + maxTransfer - 1) / maxTransfer)
	return max(16, 1<<bits.Len(uint(2*commands)))
}
