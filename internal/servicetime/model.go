package servicetime

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Version is the schema version that this package reads.
const Version = 1

// Kind says how much a Figure can be trusted.
type Kind string

// The kinds of figures.
const (
	DataSheet Kind = "data sheet" // the vendor's or the specification's claim
	Measured  Kind = "measured"   // seen on such hardware; Source says where
	Assumed   Kind = "assumed"    // an estimate; Source says why
)

// Figure is one number with its provenance.
type Figure struct {
	Value  float64 `yaml:"value"`
	Kind   Kind    `yaml:"kind"`
	Source string  `yaml:"source"`
}

// Edge is one way that bytes move. A move takes the longest of latency shared
// by the moves in flight, bytes over bandwidth, and operations over IOPS.
type Edge struct {
	LatencyNS   Figure  `yaml:"latency_ns"`            // mean time of one move alone
	Bandwidth   Figure  `yaml:"bandwidth_bytes_per_s"` // of one drive or of the link
	IOPS        *Figure `yaml:"iops,omitempty"`        // operations per second; nil: no limit
	Concurrency Figure  `yaml:"concurrency"`           // moves in flight, the useful queue depth
	// AccessBytes is what one move transfers when that is not a page: the
	// bytes of one coalesced access on edge t1.
	AccessBytes *Figure `yaml:"access_bytes,omitempty"`
	// LatencySigma is the shape of the log-normal latency distribution (the
	// standard deviation of its logarithm); nil: constant latency.
	LatencySigma *Figure `yaml:"latency_sigma,omitempty"`
	// ControllerNS is what the controller needs for one command, in addition to
	// the bytes over the bandwidth; commands share it. nil: nothing.
	ControllerNS *Figure `yaml:"controller_ns,omitempty"`
	// ControllerUnits are the controller's parallel units, over which commands
	// spread unevenly: with n commands outstanding, ControllerNS grows by the
	// factor (n+units-1)/n. nil: one. Only the simulation in virtual time knows
	// how many are outstanding; Estimate takes the factor as 1.
	ControllerUnits *Figure `yaml:"controller_units,omitempty"`
	// Links names the shared links that a move crosses.
	Links []string `yaml:"links,omitempty"`
}

// Link is a shared resource with a bandwidth, such as one direction of PCIe.
type Link struct {
	Bandwidth Figure `yaml:"bandwidth_bytes_per_s"`
}

// Drives is an array of equal drives over which pages are striped. The
// figures of Read and Write are those of one drive.
type Drives struct {
	Name  string `yaml:"name"`
	Count int    `yaml:"count"`
	Read  Edge   `yaml:"read"`
	Write Edge   `yaml:"write"`
}

// Initiator is a pool of threads that every NVMe command passes: those that
// issue it, or those of a software controller that serve it.
type Initiator struct {
	Who     Who    `yaml:"who,omitempty"` // empty: GPU threads
	CostNS  Figure `yaml:"cost_ns"`       // time of one thread per command
	Threads Figure `yaml:"threads"`       // threads that issue at once
	// CostNSPerKiB is added for each KiB of payload; nil: nothing.
	CostNSPerKiB *Figure `yaml:"cost_ns_per_kib,omitempty"`
}

// CommandNS is the time of one thread for a command of size bytes, in
// nanoseconds.
func (i *Initiator) CommandNS(size uint64) float64 {
	ns := i.CostNS.Value
	if i.CostNSPerKiB != nil {
		ns += i.CostNSPerKiB.Value * float64(size) / 1024
	}
	return ns
}

// GPU is the upper two tiers and the link between them.
type GPU struct {
	Name string `yaml:"name"`
	T1   Edge   `yaml:"t1"`
	T2T1 Edge   `yaml:"t2_to_t1"`
	T1T2 Edge   `yaml:"t1_to_t2"`
}

// CPU names the host processor, for reports.
type CPU struct {
	Name  string `yaml:"name"`
	Cores int    `yaml:"cores"`
}

// Model describes one machine. It is read-only after Load and then safe for
// concurrent use.
type Model struct {
	Version     int             `yaml:"version"`
	Name        string          `yaml:"name"`
	Description string          `yaml:"description"`
	CPU         *CPU            `yaml:"cpu,omitempty"`
	GPU         *GPU            `yaml:"gpu,omitempty"`
	Links       map[string]Link `yaml:"links,omitempty"`
	Drives      Drives          `yaml:"drives"`
	Initiator   *Initiator      `yaml:"initiator,omitempty"`
	// Controller is a software controller's pool of threads, which all drives
	// share; nil where drives serve themselves.
	Controller *Initiator `yaml:"controller,omitempty"`
	// Paths are the ways in which a page comes from the drives, by name. Without
	// any there is one, DefaultName: the drives' links and the Initiator.
	Paths       map[string]Path `yaml:"paths,omitempty"`
	DefaultPath string          `yaml:"default_path,omitempty"` // required with paths
}

// Validate reports everything that is wrong with the model, joined.
func (m *Model) Validate() error {
	v := validator{links: m.Links}
	if m.Version != Version {
		v.add("version", "is %d, this program reads version %d", m.Version, Version)
	}
	if m.Name == "" || strings.ContainsAny(m.Name, " /\\") {
		v.add("name", "must be a word without blanks and slashes, not %q", m.Name)
	}
	for _, name := range sortedKeys(m.Links) {
		v.positive("links."+name+".bandwidth_bytes_per_s", m.Links[name].Bandwidth)
	}
	if m.GPU != nil {
		v.edge("gpu.t1", m.GPU.T1)
		v.edge("gpu.t2_to_t1", m.GPU.T2T1)
		v.edge("gpu.t1_to_t2", m.GPU.T1T2)
		if m.GPU.T1.AccessBytes == nil {
			v.add("gpu.t1.access_bytes", "is required")
		}
	}
	if m.Drives.Count < 1 || m.Drives.Count > MaxDrives {
		v.add("drives.count", "must be 1 to %d, not %d", MaxDrives, m.Drives.Count)
	}
	v.edge("drives.read", m.Drives.Read)
	v.edge("drives.write", m.Drives.Write)
	v.pool("initiator", m.Initiator)
	v.pool("controller", m.Controller)
	v.paths(m)
	return errors.Join(v.errs...)
}

// MaxDrives bounds the drives of one model.
const MaxDrives = 1024

// validator collects violations so that all are reported together.
type validator struct {
	links map[string]Link
	errs  []error
}

func (v *validator) add(field, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s %s", field, fmt.Sprintf(format, args...)))
}

// positive checks one figure: a finite number above zero with kind and source.
func (v *validator) positive(field string, f Figure) {
	if !(f.Value > 0) || math.IsInf(f.Value, 0) {
		v.add(field, "must be a positive number, not %v", f.Value)
	}
	v.provenance(field, f)
}

// provenance checks that a figure says where it comes from.
func (v *validator) provenance(field string, f Figure) {
	switch f.Kind {
	case DataSheet, Measured, Assumed:
	default:
		v.add(field, "has kind %q; it must be %q, %q or %q", f.Kind, DataSheet, Measured, Assumed)
	}
	if f.Source == "" {
		v.add(field, "names no source")
	}
}

func (v *validator) edge(field string, e Edge) {
	v.positive(field+".latency_ns", e.LatencyNS)
	v.positive(field+".bandwidth_bytes_per_s", e.Bandwidth)
	v.positive(field+".concurrency", e.Concurrency)
	if e.Concurrency.Value > maxConcurrency {
		v.add(field+".concurrency", "is above %d", maxConcurrency)
	}
	for name, f := range map[string]*Figure{"iops": e.IOPS, "access_bytes": e.AccessBytes, "latency_sigma": e.LatencySigma,
		"controller_ns": e.ControllerNS, "controller_units": e.ControllerUnits} {
		if f != nil {
			v.positive(field+"."+name, *f)
		}
	}
	if e.LatencySigma != nil && e.LatencySigma.Value > 2 {
		v.add(field+".latency_sigma", "is above 2: the tail would be longer than any drive's")
	}
	v.known(field+".links", e.Links)
}

// known checks names of links.
func (v *validator) known(field string, links []string) {
	for _, l := range links {
		if _, ok := v.links[l]; !ok {
			v.add(field, "names %q, which is not under links", l)
		}
	}
}

// pool checks an optional pool of threads.
func (v *validator) pool(field string, i *Initiator) {
	if i == nil {
		return
	}
	if i.Who != "" && i.Who != ByGPU && i.Who != ByCPU {
		v.add(field+".who", "is %q; it must be %q or %q", i.Who, ByGPU, ByCPU)
	}
	v.positive(field+".cost_ns", i.CostNS)
	v.positive(field+".threads", i.Threads)
	if i.CostNSPerKiB != nil {
		v.positive(field+".cost_ns_per_kib", *i.CostNSPerKiB)
	}
}

// maxConcurrency bounds the slots of a Queue.
const maxConcurrency = 1 << 20

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
