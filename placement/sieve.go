package placement

// MinFramesSieve is the smallest number of frames that Sieve accepts.
const MinFramesSieve = 1

// Sieve is SIEVE (Zhang et al., NSDI 2024): a queue in order of insertion and
// a hand that moves from the oldest page to the newest, then starts over. A
// hit marks a page as visited; the hand clears the marks that it passes and
// evicts the first page without one. New pages enter unvisited.
//
// On scans with rare reuse the hand can stay among old pages for long, and
// sieve then behaves like lfu: do not make it a default for KV-cache traces.
// 9 bytes a page.
type Sieve struct {
	nodes   links   // page p at p+1, sentinel 0
	visited []uint8 // by page
	hand    uint32  // the node to look at next; 0 means the oldest
	n       int
	frames  int
}

// NewSieve makes a Sieve of frames frames for pages below pages.
func NewSieve(frames, pages int) (*Sieve, error) {
	if err := checkSize("sieve", frames, MinFramesSieve, pages); err != nil {
		return nil, err
	}
	return &Sieve{nodes: newLinks(pages, 1), visited: make([]uint8, pages), frames: frames}, nil
}

// Name returns sieve.
func (s *Sieve) Name() string { return "sieve" }

// Cap returns the number of frames.
func (s *Sieve) Cap() int { return s.frames }

// Len returns the number of resident pages.
func (s *Sieve) Len() int { return s.n }

// Grow prepares for pages below pages.
func (s *Sieve) Grow(pages int) {
	s.nodes = grown(s.nodes, pages+1)
	s.visited = grown(s.visited, pages)
}

// Hit marks p as visited.
func (s *Sieve) Hit(p Page) { s.visited[p] = 1 }

// Insert adds p, unvisited, at the newest end.
func (s *Sieve) Insert(p Page) {
	s.n++
	s.visited[p] = 0
	s.nodes.push(0, uint32(p)+1)
}

// Victim moves the hand to the first page that was not visited. Pinned pages
// are passed with their mark as it is. The hand makes at most two turns.
func (s *Sieve) Victim(_ Page, pins Pins) Page {
	if pins != nil {
		return s.victimPinned(pins)
	}
	if s.n == 0 {
		return None
	}
	nodes, visited, i := s.nodes, s.visited, s.hand
	if i == 0 {
		i = nodes[0].prev
	}
	// Whether the page at the hand was visited cannot be foreseen, so the first
	// step is taken without a branch: its mark is cleared, set or not.
	if next := nodes[i].prev; next != 0 {
		first := visited[i-1]
		if visited[next-1]&first == 0 {
			visited[i-1] = 0
			if first != 0 {
				i = next
			}
			s.take(i)
			return Page(i - 1)
		}
	}
	for visited[i-1] != 0 {
		visited[i-1] = 0
		if i = nodes[i].prev; i == 0 {
			i = nodes[0].prev
		}
	}
	s.take(i)
	return Page(i - 1)
}

// victimPinned is Victim with pins: after one turn without a page that may
// leave it gives up, with every mark and the hand as they were.
func (s *Sieve) victimPinned(pins Pins) Page {
	i, movable := s.hand, false
	for seen := 0; movable || seen < s.n; seen++ {
		if i == 0 {
			i = s.nodes[0].prev
		}
		if p := i - 1; !pins.Pinned(Page(p)) {
			if s.visited[p] == 0 {
				s.take(i)
				return Page(p)
			}
			s.visited[p] = 0
			movable = true
		}
		i = s.nodes[i].prev
	}
	return None
}

// take evicts node i and leaves the hand at the next newer page.
func (s *Sieve) take(i uint32) {
	s.hand = s.nodes[i].prev
	s.nodes.unlink(i)
	s.n--
}

// Remove takes p out; a hand on it moves on to the next newer page.
func (s *Sieve) Remove(p Page) {
	i := uint32(p) + 1
	if s.hand == i {
		s.hand = s.nodes[i].prev
	}
	s.nodes.unlink(i)
	s.n--
}
