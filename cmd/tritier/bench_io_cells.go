package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm/drive"
)

// combinations multiplies the lists out, in the order of reports.
func (s *ioSettings) combinations() error {
	l, err := s.f.lists()
	if err != nil {
		return err
	}
	if l.initiators == nil {
		l.initiators = []string{byGPU}
	}
	elsewhere := func(u drive.URI) bool { return u.Scheme != drive.Memory }
	if len(l.service) > 1 && slices.ContainsFunc(s.drives, elsewhere) {
		return errors.New("--service-threads lists several counts, for each of which the drives are opened anew: that needs mem: drives")
	}
	if err := s.enoughWarps(&l); err != nil {
		return err
	}
	s.cells = nil
	for _, service := range l.service {
		for _, who := range l.initiators {
			for _, queues := range l.queues {
				base := ioCell{initiator: who, service: service, queues: queues}
				if err := s.loads(&l, base); err != nil {
					return err
				}
			}
		}
	}
	if len(s.cells) > maxCells {
		return fmt.Errorf("the lists make %d combinations; 1 to %d are possible", len(s.cells), maxCells)
	}
	return nil
}

// enoughWarps wants a warp for each drive: warps share out the drives.
func (s *ioSettings) enoughWarps(l *ioLists) error {
	n := len(s.drives)
	if !slices.Contains(l.initiators, byGPU) || l.warps[0] >= n {
		return nil
	}
	if s.chosen {
		return fmt.Errorf("%s cannot load %d drives: give each a warp of 32 GPU threads at least", plural(uint64(l.warps[0]), "warp"), n)
	}
	l.warps = slices.DeleteFunc(l.warps, func(w int) bool { return w < n })
	return nil
}

// loads adds the combinations of operation, pattern, size and warps.
func (s *ioSettings) loads(l *ioLists, x ioCell) error {
	for _, x.op = range l.ops {
		for _, x.pattern = range l.patterns {
			for _, x.size = range l.sizes {
				if x.initiator == byCPU {
					s.cells = append(s.cells, x)
					continue
				}
				for _, x.warps = range l.warps {
					if err := s.f.chooseLanes(&x); err != nil {
						return err
					}
					s.cells = append(s.cells, x)
				}
			}
		}
	}
	return nil
}

// chooseLanes is as many I/Os of a warp as were asked for, or as keep what is in
// flight so small that the CPU's caches have a chance.
func (f *benchIOFlags) chooseLanes(x *ioCell) error {
	if x.lanes = f.lanes; x.lanes == 0 {
		x.lanes = warpThreads
		for x.lanes > 1 && x.payload() > defaultPayload {
			x.lanes /= 2
		}
	}
	if x.payload() > mostPayload {
		return fmt.Errorf("%s of %s of %s need %s of pinned memory, more than %s: lower one of them",
			plural(uint64(x.warps), "warp"), plural(uint64(x.lanes), "I/O"), shortBytes(x.size),
			units.FormatBytes(x.payload()), units.FormatBytes(mostPayload))
	}
	return nil
}

// ioGroup is a part of the cells that the same drives and queues serve.
type ioGroup struct {
	initiator       string
	service, queues int
	cells           []ioCell
}

// groups splits the cells by what must be opened for them.
func (s *ioSettings) groups() (list []ioGroup) {
	for _, x := range s.cells {
		n := len(list)
		if n == 0 || list[n-1].initiator != x.initiator || list[n-1].service != x.service || list[n-1].queues != x.queues {
			list = append(list, ioGroup{initiator: x.initiator, service: x.service, queues: x.queues})
			n++
		}
		list[n-1].cells = append(list[n-1].cells, x)
	}
	return list
}

// payload is what the largest cell has in flight, and at least what filling needs.
func (g *ioGroup) payload(drives int) (bytes uint64, buffer int) {
	bytes, buffer = uint64(drives)*fillLanes*fillBytes, fillBytes
	for i := range g.cells {
		bytes, buffer = max(bytes, g.cells[i].payload()), max(buffer, g.cells[i].size)
	}
	return (bytes + uint64(buffer) - 1) / uint64(buffer) * uint64(buffer), buffer
}
