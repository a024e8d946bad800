package pinned

import (
	"bufio"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stats says how the pool came about and what it is like.
type Stats struct {
	Size, ChunkBytes uint64
	Chunks           int
	Registered       bool
	Contiguous       bool

	Total    time.Duration // of Open
	Touch    time.Duration // from the first touch to the last
	Register time.Duration // inside Register, which runs beside the touching
	Workers  int
	Populate bool // the kernel touched (MADV_POPULATE_WRITE), not a loop

	Node      int // asked for, or AnyNode
	Policy    Policy
	Placement []NodeShare // where sampled pages were after the start; empty where the kernel does not tell
	HugeShare float64     // part of the memory in huge pages, 0 to 1; negative where unknown
	Notes     []string    // what is not as asked for and costs speed only, with the reason

	Slabs           int    // allocated now
	Allocated, Free uint64 // bytes
}

// Rate returns the start-up's bytes per second.
func (s Stats) Rate() float64 {
	if s.Total <= 0 {
		return 0
	}
	return float64(s.Size) / s.Total.Seconds()
}

// OnNode returns the sampled part of the pool that lies on a node, 0 to 1, and whether it is known.
func (s Stats) OnNode(node int) (share float64, known bool) {
	for _, n := range s.Placement {
		if n.Node == node {
			share = n.Share
		}
	}
	return share, len(s.Placement) > 0
}

// stats describes a start that has succeeded.
func (s *start) stats(page uint64, total time.Duration) Stats {
	placement, err := shares(s.m.kernel, s.m.mem, page)
	if err != nil {
		s.notes.add("where the memory lies is not known: %v", err)
	}
	return Stats{
		Size: s.m.size, ChunkBytes: s.m.chunk, Chunks: len(s.m.chunks), Registered: s.cfg.Register != nil,
		Total: total, Touch: time.Duration(s.touch.Load()), Register: s.calls, Workers: s.place.workers, Populate: !s.plain.Load(),
		Node: s.cfg.Node, Policy: s.place.policy, Placement: placement, Notes: s.notes.list,
	}
}

// Stats returns the figures of the start and of the allocator. The first call reads how much of the pool is in huge pages, for which the
// kernel walks the page tables: the less is, the longer that takes.
func (p *Pool) Stats() Stats {
	s := p.stats
	s.Contiguous = p.contiguous
	s.HugeShare = -1
	if !p.closed.Load() {
		s.HugeShare = p.huge()
	}
	s.Placement, s.Notes = slices.Clone(s.Placement), slices.Clone(s.Notes)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Slabs = p.slabs
	s.Free, _ = p.ext.sum()
	s.Allocated = s.Size - s.Free
	return s
}

// hugeShare reads from smaps how much of the mapping at base is in transparent huge pages. A mapping that the kernel has joined with a
// neighbour of the same kind answers for both. It returns -1 where nothing is known.
func hugeShare(root fs.FS, base, size uint64) float64 {
	f, err := root.Open("proc/self/smaps")
	if err != nil {
		return -1
	}
	defer f.Close() // read only: nothing is lost
	var resident, huge uint64
	inside := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		field := strings.Fields(sc.Text())
		if len(field) == 0 {
			continue
		}
		if from, to, ok := addresses(field[0]); ok {
			if from >= base+size {
				break // what follows needs not be walked by the kernel
			}
			inside = to > base
			continue
		}
		if !inside || len(field) < 2 {
			continue
		}
		n, err := strconv.ParseUint(field[1], 10, 64)
		switch {
		case err != nil:
		case field[0] == "Rss:":
			resident += n
		case field[0] == "AnonHugePages:":
			huge += n
		}
	}
	if resident == 0 {
		return -1
	}
	return float64(huge) / float64(resident)
}

// addresses parses the beginning of a mapping's first line, "7f00-7f10".
func addresses(s string) (from, to uint64, ok bool) {
	a, b, found := strings.Cut(s, "-")
	from, errA := strconv.ParseUint(a, 16, 64)
	to, errB := strconv.ParseUint(b, 16, 64)
	return from, to, found && errA == nil && errB == nil
}
