package doctor

import (
	"errors"

	"github.com/tritier/tritier/internal/gpuinfo"
)

// Status is the verdict on one item.
type Status string

// The verdicts.
const (
	OK      Status = "ok"
	Limited Status = "limited" // there, but less than it could be
	Missing Status = "missing"
	Unknown Status = "unknown" // could not be found out
)

// Statuses lists the verdicts, best first.
func Statuses() []Status { return []Status{OK, Limited, Missing, Unknown} }

// Item is one thing that a machine has or lacks.
type Item struct {
	ID     string `json:"id"` // stable; several items may share one, such as drives
	Name   string `json:"name"`
	Status Status `json:"status"`
	Value  string `json:"value"`            // what was found, for people
	Source string `json:"source,omitempty"` // where it was found
	Cost   string `json:"cost,omitempty"`   // what it costs that it is missing or limited
	Remedy string `json:"remedy,omitempty"` // how to get it
	Facts  Facts  `json:"facts,omitempty"`  // the same for programs
}

// Facts are the figures of an item. Sizes are in bytes, rates in bytes per second.
type Facts map[string]any

// Section is a group of items, about one device where Device is set.
type Section struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Device string `json:"device,omitempty"` // a GPU's UUID
	Items  []Item `json:"items"`
}

// Path is a way for data between a drive and the memory that computes on it.
type Path struct {
	ID       string   `json:"id"` // file, mem, nvme, nvme-p2p
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Requests string   `json:"requests"` // who writes the requests, and who serves them
	Payload  []string `json:"payload"`  // the places that each byte passes, empty when there is no such path here
	Notes    []string `json:"notes,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
}

// Peers says which GPU can reach the memory of which.
type Peers struct {
	GPUs   []string `json:"gpus"`   // UUIDs
	Access [][]bool `json:"access"` // by row: may GPU i read and write the memory of GPU j
}

// ReportVersion changes when a field changes its meaning.
const ReportVersion = 1

// Report is what Collect found.
type Report struct {
	Version  int            `json:"version"`
	Counts   map[Status]int `json:"counts"` // of items
	Sections []Section      `json:"sections"`
	Peers    *Peers         `json:"peers,omitempty"` // with two GPUs or more
	Paths    []Path         `json:"paths"`
}

// Item finds an item by section and id; device is a GPU's UUID, or "" for any. It is nil when there is none.
func (r *Report) Item(section, device, id string) *Item {
	for i := range r.Sections {
		s := &r.Sections[i]
		if s.ID != section || device != "" && s.Device != device {
			continue
		}
		for j := range s.Items {
			if s.Items[j].ID == id {
				return &s.Items[j]
			}
		}
	}
	return nil
}

// count counts the verdicts.
func (r *Report) count() {
	r.Counts = map[Status]int{}
	for _, s := range Statuses() {
		r.Counts[s] = 0
	}
	for _, s := range r.Sections {
		for _, i := range s.Items {
			r.Counts[i.Status]++
		}
	}
}

// found is an item that is as it should be.
func found(id, name, value string, facts Facts) Item {
	return Item{ID: id, Name: name, Status: OK, Value: value, Facts: facts}
}

// lacking is an item that is not.
func lacking(status Status, id, name, value, cost, remedy string, facts Facts) Item {
	return Item{ID: id, Name: name, Status: status, Value: value, Cost: cost, Remedy: remedy, Facts: facts}
}

// unknown is an item that could not be found out, with what may help to.
func unknown(id, name string, err error) Item {
	i := Item{ID: id, Name: name, Status: Unknown, Value: err.Error()}
	var late *TimeoutError
	var unavailable *gpuinfo.UnavailableError
	switch {
	case errors.As(err, &late):
		i.Remedy = "see the kernel's log (dmesg) for what hangs, and ask again"
	case errors.As(err, &unavailable):
		i.Remedy = unavailable.Advice()
	}
	return i
}
