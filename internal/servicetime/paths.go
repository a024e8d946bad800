package servicetime

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Who says which processor's threads do something.
type Who string

// The processors.
const (
	ByGPU Who = "gpu"
	ByCPU Who = "cpu"
)

// Place says where a path leaves the payload.
type Place string

// The places.
const (
	InGPU  Place = "gpu"  // GPU memory
	InHost Place = "host" // host memory: to be copied to the GPU later
)

// DefaultName is the path of a model that names none.
const DefaultName = "default"

// Path is one way in which requests reach the drives and payload the memory:
// who initiates, which links are crossed, where the payload ends, and what it
// costs processors.
type Path struct {
	Description string     `yaml:"description"`
	Initiator   *Initiator `yaml:"initiator"`            // required
	Controller  *Initiator `yaml:"controller,omitempty"` // a software controller's threads
	Ends        Place      `yaml:"ends"`                 // where reads leave the payload
	// InFlight bounds the requests that the path keeps outstanding, over all
	// drives; InFlightPerDrive for each drive. One of them is required.
	InFlight         *Figure `yaml:"in_flight,omitempty"`
	InFlightPerDrive *Figure `yaml:"in_flight_per_drive,omitempty"`
	// Read and Write name the shared links that payload crosses.
	Read     []string  `yaml:"read_links,omitempty"`
	Write    []string  `yaml:"write_links,omitempty"`
	Crossing *Crossing `yaml:"crossing,omitempty"`
	Bill     Bill      `yaml:"bill"`
}

// Crossing is the price of drives that are under another PCIe root complex
// than the memory that payload goes to.
type Crossing struct {
	LatencyNS Figure `yaml:"latency_ns"` // added to a command
	// UpToBytes is the largest command that pays: larger ones hide it.
	UpToBytes Figure `yaml:"up_to_bytes"`
}

// Bill is what a path costs beyond the time: a figure that is absent is not
// known.
type Bill struct {
	LogicalCPUs *Figure `yaml:"logical_cpus,omitempty"`
	GPUShare    *Figure `yaml:"gpu_share,omitempty"`   // of the SMs' time, 0 to 1
	GPUThreads  *Figure `yaml:"gpu_threads,omitempty"` // that it takes to fill the path
}

// Outstanding is how many requests the path keeps in flight over so many
// drives.
func (p *Path) Outstanding(drives int) int {
	if p.InFlight != nil {
		return max(1, int(p.InFlight.Value))
	}
	if p.InFlightPerDrive != nil {
		return max(1, int(p.InFlightPerDrive.Value)*drives)
	}
	return maxConcurrency
}

// CrossingNS is what a command of size bytes pays for the way, in nanoseconds.
func (p *Path) CrossingNS(size uint64) float64 {
	if p.Crossing == nil || float64(size) > p.Crossing.UpToBytes.Value {
		return 0
	}
	return p.Crossing.LatencyNS.Value
}

// UnknownPathError is a name that is no path of a model.
type UnknownPathError struct {
	Model, Name string
	Known       []string
}

// Error lists the paths that there are.
func (e *UnknownPathError) Error() string {
	return fmt.Sprintf("servicetime: model %s has no access path %q; it has %s", e.Model, e.Name, strings.Join(e.Known, ", "))
}

// PathNames returns the model's paths, sorted; a model without any has
// DefaultName.
func (m *Model) PathNames() []string {
	if len(m.Paths) == 0 {
		return []string{DefaultName}
	}
	return sortedKeys(m.Paths)
}

// By returns the model as it is by one of its access paths: drives, initiator and
// controller are those of the path, so that Estimate reckons with them. An
// empty name is the default path. The error is an *UnknownPathError.
func (m *Model) By(name string) (*Model, string, Path, error) {
	if name == "" {
		if name = m.DefaultPath; name == "" {
			name = DefaultName
		}
	}
	if !slices.Contains(m.PathNames(), name) {
		return nil, "", Path{}, &UnknownPathError{m.Name, name, m.PathNames()}
	}
	if len(m.Paths) == 0 {
		return m, name, Path{Description: "the only one", Initiator: m.Initiator, Controller: m.Controller, Ends: InGPU,
			Read: m.Drives.Read.Links, Write: m.Drives.Write.Links}, nil
	}
	p := m.Paths[name]
	by := *m
	by.Initiator, by.Controller = p.Initiator, p.Controller
	by.Drives.Read.Links, by.Drives.Write.Links = p.Read, p.Write
	return &by, name, p, nil
}

// WithDrives returns the model with another number of drives, 1 to MaxDrives;
// others are taken as the nearest of these. Links stay as they are.
func (m *Model) WithDrives(n int) *Model {
	c := *m
	c.Drives.Count = min(max(n, 1), MaxDrives)
	return &c
}

// paths checks the model's paths.
func (v *validator) paths(m *Model) {
	if _, ok := m.Paths[m.DefaultPath]; !ok && (len(m.Paths) > 0 || m.DefaultPath != "") {
		v.add("default_path", "names %q, which is not under paths", m.DefaultPath)
	}
	for _, name := range sortedKeys(m.Paths) {
		p, field := m.Paths[name], "paths."+name
		if name == "" || strings.ContainsAny(name, " ,/\\") {
			v.add(field, "must be a word without blanks, commas and slashes")
		}
		if p.Ends != InGPU && p.Ends != InHost {
			v.add(field+".ends", "is %q; it must be %q or %q", p.Ends, InGPU, InHost)
		}
		if p.Initiator == nil {
			v.add(field+".initiator", "is required")
		}
		v.pool(field+".initiator", p.Initiator)
		v.pool(field+".controller", p.Controller)
		v.inFlight(field, &p)
		v.known(field+".read_links", p.Read)
		v.known(field+".write_links", p.Write)
		if p.Crossing != nil {
			v.positive(field+".crossing.latency_ns", p.Crossing.LatencyNS)
			v.positive(field+".crossing.up_to_bytes", p.Crossing.UpToBytes)
		}
		v.bill(field+".bill", p.Bill)
	}
}

func (v *validator) inFlight(field string, p *Path) {
	if (p.InFlight == nil) == (p.InFlightPerDrive == nil) {
		v.add(field, "needs either in_flight or in_flight_per_drive")
	}
	for name, f := range map[string]*Figure{"in_flight": p.InFlight, "in_flight_per_drive": p.InFlightPerDrive} {
		if f == nil {
			continue
		}
		v.positive(field+"."+name, *f)
		if f.Value > maxConcurrency {
			v.add(field+"."+name, "is above %d", maxConcurrency)
		}
	}
}

// bill checks figures that may be zero.
func (v *validator) bill(field string, b Bill) {
	for name, f := range map[string]*Figure{"logical_cpus": b.LogicalCPUs, "gpu_share": b.GPUShare, "gpu_threads": b.GPUThreads} {
		if f == nil {
			continue
		}
		v.provenance(field+"."+name, *f)
		if !(f.Value >= 0) || math.IsInf(f.Value, 0) || name == "gpu_share" && f.Value > 1 {
			v.add(field+"."+name, "is %v, out of range", f.Value)
		}
	}
}
