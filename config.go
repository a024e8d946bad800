package tritier

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier/gpu"
)

// Config describes a Memory. The zero value of a field takes its default.
type Config struct {
	// Store is where the arrays are: drives by their URIs, separated by commas,
	// over which pages are striped. mem:SIZE, file:PATH[?size=SIZE], nvme:ADDRESS. What mem:
	// holds is gone at Close, so that it stands beside no drive of another kind.
	Store string `yaml:"store"`
	// Create makes a store of drives that hold nothing; without it the store must
	// exist. Force makes one of drives that hold something else, which is lost.
	// mem: is always made.
	Create bool `yaml:"create"`
	Force  bool `yaml:"force"`
	// PageSize of a store that is made: a power of two from 4 KiB to 2 MiB. An
	// existing store has its own, and a different one here is an error. 64KiB.
	PageSize Size `yaml:"page_size"`
	// Checksums of every page, in a store that is made: what the storage changed
	// or a crash tore is then an error, never data.
	Checksums bool `yaml:"checksums"`

	// T1 and T2 are the tiers' sizes in bytes, rounded down to pages. T2 may be 0,
	// which leaves two tiers.
	T1 Size `yaml:"t1"`
	T2 Size `yaml:"t2"`
	// Buffers is host memory beside T2 that pages pass through: more lets more
	// pages move at once, and as many accesses wait for T3 with engine gpu. An eighth of
	// T1, from 16 MiB to 128 MiB, when 0; never less than 2 pages.
	Buffers Size `yaml:"buffers"`

	// Policy in the grammar of package placement. gmt-reuse, and bypass when
	// there is no T2.
	Policy string `yaml:"policy"`
	// Seed of the policy's random choices.
	Seed uint64 `yaml:"seed"`

	// Engine says who decides, for the Memory's life: host, the CPU, with any policy
	// and also without a GPU; or gpu, kernels themselves, which can then use
	// Array.Ref, with t1=clock or fifo and t2=fifo. host.
	Engine string `yaml:"engine"`
	// GPU whose memory T1 is: auto (the first one, or ordinary memory if there is
	// none), none, a number or a UUID.
	GPU string `yaml:"gpu"`
	// Moves says who copies pages between T1 and T2 with engine gpu: kernel, the warps that
	// need them; copy-engine, the GPU's copy engines on request, which takes a goroutine that
	// polls; or auto, by direction what the GPU's calibration has as faster. auto.
	Moves string `yaml:"moves"`
	// Threads is the number of service threads per software-served drive. 1.
	Threads int `yaml:"threads"`
	// Model paces software-served drives to a service-time model of another array
	// of drives. Every figure is then modelled.
	Model string `yaml:"model"`
	// Timeout bounds every wait for drives and GPU. 30 s. With engine gpu, a call whose
	// context has no deadline ends with a *gpu.HangError when for so long, and 2 s, no kernel
	// has made an access and no I/O was in flight. What holds the call up may be kernels of
	// the program, before it in its stream or on all of the GPU: they are left alone. A call
	// that is to wait longer for them gets a context with a deadline, which then bounds it.
	// Memory.Watch waits for kernels of the program as long as its context says.
	Timeout time.Duration `yaml:"timeout"`
	// Retries of a failed read or write, before it is reported. 2; -1 is none. With engine
	// gpu, batch calls, Flush and Close try again what a drive has refused, and Close what it has
	// not answered; kernels of the program report what failed at once.
	Retries int `yaml:"retries"`

	// Observe, if set, is told of every page access, one call after another. It must not
	// call the Memory. With engine host, in order and before the access is made. With
	// engine gpu, from a goroutine while kernels run and until the call that began them
	// returns: accesses of one warp in its order, of several in the order in which
	// they got numbers; an Observe that is too slow is not told of all: see Observed.
	Observe func(Access) `yaml:"-"`
	// ObserveEvery has Observe told of the accesses to one in so many pages, chosen by a
	// hash of the page's number; of all when 0 or 1.
	ObserveEvery int `yaml:"-"`
	// Events, if set, is told of every move of pages or elements that has ended, one call
	// after another. It must not call the Memory. With engine gpu, from a goroutine while
	// kernels run, of misses and moves of single pages; kernels do not wait for it, and what
	// it is too slow for is left out and counted: see Traced.
	Events func(Event) `yaml:"-"`
	// EventsEvery, with engine gpu, has Events told of one in so many misses and of what they
	// move; of all when 0 or 1.
	EventsEvery int `yaml:"-"`
	// Driver, if set, has the GPU in place of the machine's: a software GPU, in tests.
	Driver *cuda.Driver `yaml:"-"`
	// Faults, for tests, gives the fault plan of drive number i, when software
	// serves it.
	Faults func(i int) soft.Faults `yaml:"-"`
}

// mostBuffers bounds the pages of Config.Buffers.
const mostBuffers = 1 << 20

// Defaults of a Config.
const (
	DefaultPageSize = 64 << 10
	DefaultBuffers  = 16 << 20 // at least; see Config.Buffers
	mostOwnBuffers  = 128 << 20
	DefaultTimeout  = 30 * time.Second
	DefaultRetries  = 2

	EngineHost = "host"
	EngineGPU  = "gpu"

	MovesAuto       = gpu.MovesAuto
	MovesKernel     = gpu.MovesKernel
	MovesCopyEngine = gpu.MovesCopyEngine

	MinPageSize = 4 << 10
	MaxPageSize = 2 << 20
)

// ConfigError is every violation of a Config, together.
type ConfigError struct{ Violations []error }

// Error lists all violations.
func (e *ConfigError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Error()
	}
	return "configuration: " + strings.Join(parts, "; ")
}

// Unwrap returns the violations.
func (e *ConfigError) Unwrap() []error { return e.Violations }

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	set := func(v *Size, d Size) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.PageSize, DefaultPageSize)
	// A page on its way needs a frame too, so that more than a part of T1 is of no use.
	set(&c.Buffers, max(min(c.T1/8/c.PageSize*c.PageSize, mostOwnBuffers), DefaultBuffers, 4*c.PageSize))
	if c.Policy == "" {
		if c.Policy = "gmt-reuse"; c.T2 < c.PageSize {
			c.Policy = "bypass"
		}
	}
	if c.GPU == "" {
		c.GPU = "auto"
	}
	if c.Engine == "" {
		c.Engine = EngineHost
	}
	if c.Moves == "" {
		c.Moves = MovesAuto
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Retries == 0 {
		c.Retries = DefaultRetries
	}
	c.Threads = max(c.Threads, 1)
	return c
}

// Check returns a *ConfigError with everything that is wrong with c, or nil.
func (c Config) Check() error {
	_, err := c.parse()
	return err
}

// parsed is a Config in the terms of the parts.
type parsed struct {
	Config
	drives []drive.URI
	policy placement.Spec
	model  *servicetime.Model

	pageSizeAsked bool
	readOnly      bool // the drives are opened for reading alone
	made          []madeFile
}

func (c Config) parse() (*parsed, error) {
	p := &parsed{Config: c.withDefaults(), pageSizeAsked: c.PageSize != 0}
	var bad []error
	note := func(field string, err error) {
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", field, err))
		}
	}
	var err error
	if strings.TrimSpace(c.Store) == "" {
		note("store", fmt.Errorf("missing: want drives as %s", drive.Forms))
	} else {
		p.drives, err = parseStore(c.Store)
		note("store", err)
	}
	p.policy, err = placement.Parse(p.Policy)
	note("policy", err)
	if err == nil && p.policy.NeedsFuture() {
		note("policy", fmt.Errorf("%s needs the whole trace in advance: it is for replay only", p.Policy))
	}
	note("page_size", checkPageSize(p.PageSize))
	if p.pageSizeAsked || p.Create || p.inMemory() { // else the store says how large pages are
		bad = append(bad, p.checkSizes()...)
	}
	note("gpu", checkGPU(p.GPU))
	note("engine", p.checkEngine())
	note("moves", p.checkMoves())
	if c.Threads < 0 || c.Threads > 64 {
		note("threads", fmt.Errorf("%d: want 1 to 64", c.Threads))
	}
	if p.Timeout < time.Millisecond || p.Timeout > time.Hour {
		note("timeout", fmt.Errorf("%v: want 1ms to 1h", p.Timeout))
	}
	if p.Retries < -1 || p.Retries > 100 {
		note("retries", fmt.Errorf("%d: want -1 (none) to 100", p.Retries))
	}
	if p.ObserveEvery < 0 {
		note("observe", fmt.Errorf("one in %d pages: want 0 (all) or more", p.ObserveEvery))
	}
	if p.EventsEvery < 0 || p.EventsEvery > math.MaxInt32 {
		note("events", fmt.Errorf("one in %d misses: want 0 (all) to %d", p.EventsEvery, math.MaxInt32))
	}
	if p.Model != "" {
		p.model, err = servicetime.Load(p.Model)
		note("model", err)
	}
	if len(bad) > 0 {
		return nil, &ConfigError{bad}
	}
	return p, nil
}

// checkEngine refuses what the engine cannot do.
func (p *parsed) checkEngine() error {
	switch {
	case p.Engine != EngineHost && p.Engine != EngineGPU:
		return fmt.Errorf("%q: want host or gpu", p.Engine)
	case p.Engine == EngineGPU && p.GPU == "none":
		return errors.New("gpu needs a GPU, and gpu: none wants none")
	case p.Engine == EngineGPU && p.Checksums:
		return errors.New("gpu writes past the store, which cannot keep checksums then: leave them out, or use engine host")
	}
	return nil
}

// checkMoves refuses what nobody does.
func (p *parsed) checkMoves() error {
	switch p.Moves {
	case MovesAuto:
		return nil
	case MovesKernel, MovesCopyEngine:
		if p.Engine == EngineHost {
			return fmt.Errorf("%s: engine host chooses for every batch by the calibration: leave it out, or use engine gpu", p.Moves)
		}
		return nil
	}
	return fmt.Errorf("%q: want auto, kernel or copy-engine", p.Moves)
}

// pages are the frames of T1, the slots of T2 and the spare ones.
func (p *parsed) pages() (frames, t2, spares int) {
	return int(p.T1 / p.PageSize), int(p.T2 / p.PageSize), int(p.Buffers / p.PageSize)
}

// checkSizes compares the tiers with the page size, which an existing store decides.
func (p *parsed) checkSizes() []error {
	var bad []error
	if p.T1 < p.PageSize {
		bad = append(bad, fmt.Errorf("t1: %v is less than a page of %v", p.T1, p.PageSize))
	}
	if p.T2 != 0 && p.T2 < p.PageSize {
		bad = append(bad, fmt.Errorf("t2: %v is less than a page of %v: want 0 for no host tier, or more", p.T2, p.PageSize))
	}
	if n := p.Buffers / p.PageSize; n < 2 || n > mostBuffers {
		bad = append(bad, fmt.Errorf("buffers: %v is %d pages of %v: want 2 to %d pages", p.Buffers, n, p.PageSize, mostBuffers))
	}
	return bad
}

var gpuForm = regexp.MustCompile(`^(auto|none|\d{1,4}|GPU-[0-9a-fA-F-]{8,64})$`)

func checkGPU(s string) error {
	if !gpuForm.MatchString(s) {
		return fmt.Errorf("%q: want auto, none, a number or a UUID (GPU-...)", s)
	}
	return nil
}

func checkPageSize(n Size) error {
	if n < MinPageSize || n > MaxPageSize || n&(n-1) != 0 {
		return fmt.Errorf("%v: want a power of two from 4KiB to 2MiB", n)
	}
	return nil
}
