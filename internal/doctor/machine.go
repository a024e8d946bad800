package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/gpuinfo"
	"github.com/tritier/tritier/internal/pinned"
	"github.com/tritier/tritier/internal/uring"
)

// Machine is how the doctor asks. Probes are called once each, some of them at the same time.
type Machine struct {
	Root string // the folder that holds "proc", "sys" and "dev"
	Env  func(name string) string

	Driver func() (*cuda.Driver, error)
	GPUs   GPUReader
	Limits func() (*pinned.HostLimits, error)
	Drives func() ([]Drive, error)
	Uring  func() error // nil where io_uring works
	Direct func() (Direct, error)
	CPUs   func() (usable, parallel int) // logical CPUs, and how many threads a control group's quota lets run at once

	// Calibration says whether there are measured copy curves of a GPU under a driver, and which. Nil leaves the item out.
	Calibration func(uuid, driver string) (Status, string)

	Kernels  Kernels
	Features Features

	Deadline time.Duration // of one probe; 0 means DefaultDeadline
}

// GPUReader is the part of [gpuinfo.Reader] that the doctor needs.
type GPUReader interface {
	NVML(ctx context.Context) (driverVersion string, err error)
	Query(ctx context.Context, address string) (gpuinfo.Info, error)
}

// Kernels is what the kernels in this program ask of a driver and a GPU.
type Kernels struct {
	PTX     int // version times 10: 63 is PTX 6.3
	Compute int // compute capability times 10: 70 is 7.0
}

// Features says which ways for data this program has; what it has not is not offered, whatever the machine could do.
type Features struct {
	GPUInitiated bool // GPU threads write NVMe requests
	PeerToPeer   bool // a drive writes into GPU memory; no transport of this program can where it is false
}

// DefaultDeadline bounds a probe. Initialising a driver that has to wake eight GPUs takes some seconds.
const DefaultDeadline = 20 * time.Second

// Host is this machine. O_DIRECT is tried in dir. Drives and Calibration are left to the caller.
func Host(dir string, gpus GPUReader) Machine {
	return Machine{
		Root: "/", Env: os.Getenv, Driver: cuda.Open, GPUs: gpus, Limits: pinned.Limits, Uring: uring.Probe,
		Drives: func() ([]Drive, error) { return nil, nil },
		Direct: func() (Direct, error) { return probeDirect(dir) },
		CPUs:   func() (int, int) { return runtime.NumCPU(), runtime.GOMAXPROCS(0) },
	}
}

// Collect asks everything. Its only error is that ctx has ended.
func (m Machine) Collect(ctx context.Context) (*Report, error) {
	if m.Deadline == 0 {
		m.Deadline = DefaultDeadline
	}
	c := &collector{Machine: m, ctx: ctx}
	driver, gpus := c.driver()
	sections := append([]Section{driver}, gpus...)
	sections = append(sections, c.memory(), c.translation(), c.sharing(), c.storage(), c.processors())
	r := &Report{Version: ReportVersion, Sections: sections, Peers: c.peers}
	r.Paths = c.paths(r)
	r.count()
	return r, ctx.Err()
}

// collector is one run, with what later sections need of earlier ones.
type collector struct {
	Machine
	ctx       context.Context
	limits    *pinned.HostLimits // see hostLimits
	limitsErr error
	gpus      []gpu
	peers     *Peers
	drives    []Drive
	direct    Direct
	uring     error

	uringRemedy string // how to get io_uring, where it is missing
}

// TimeoutError says that a probe did not answer.
type TimeoutError struct {
	What  string
	After time.Duration
	Err   error
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s has not answered in %v", e.What, e.After)
}

// Unwrap gives the context's error.
func (e *TimeoutError) Unwrap() error { return e.Err }

// within calls f, and leaves it behind when it has not returned in time: a driver or a network file system may hang for ever.
func within[T any](c *collector, what string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.Deadline)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return *new(T), &TimeoutError{what, c.Deadline, ctx.Err()}
	}
}

// path is a file of the machine.
func (c *collector) path(name string) string { return filepath.Join(c.Root, name) }

// read is the content of a small file, "" when there is none.
func (c *collector) read(name string) string {
	b, err := os.ReadFile(c.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (c *collector) exists(name string) bool {
	_, err := os.Stat(c.path(name))
	return err == nil
}

// names lists a folder; one that is not there is empty.
func (c *collector) names(dir string) []string {
	entries, err := os.ReadDir(c.path(dir))
	if err != nil {
		return nil
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
