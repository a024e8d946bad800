package placement

import "fmt"

// MinFramesS3FIFO is the smallest number of frames that S3FIFO accepts: one
// for the small queue and one for the main queue.
const MinFramesS3FIFO = 2

// S3FIFOParams tunes S3FIFO. A zero field stands for its default.
type S3FIFOParams struct {
	Small   float64 // share of the frames in the small queue; 0.10
	Ghost   float64 // ghost entries per frame of the main queue; 1.0
	Cap     int     // highest count of uses that is kept; 3, at most 63
	Promote int     // uses in the small queue above which a page moves to main; 1
}

func (p *S3FIFOParams) fill() error {
	p.Small = orDefault(p.Small, 0.10)
	p.Ghost = orDefault(p.Ghost, 1.0)
	p.Cap = orDefault(p.Cap, 3)
	p.Promote = orDefault(p.Promote, 1)
	if err := checkFraction("s3-fifo", "small", p.Small, 1); err != nil {
		return err
	}
	if err := checkFraction("s3-fifo", "ghost", p.Ghost, 1000); err != nil {
		return err
	}
	if p.Cap < 1 || p.Cap > 63 {
		return fmt.Errorf("placement: s3-fifo: cap=%d must be 1 to 63", p.Cap)
	}
	if p.Promote < 1 || p.Promote >= p.Cap {
		return fmt.Errorf("placement: s3-fifo: promote=%d must be 1 to cap-1=%d", p.Promote, p.Cap-1)
	}
	return nil
}

// S3FIFO is S3-FIFO (Yang et al., SOSP 2023). New pages enter a small FIFO
// queue; those used more than Promote times there move to the main queue with
// their count cleared, the others leave and a ghost queue remembers them. A
// page that the ghost queue remembers enters the main queue at once. The main
// queue gives a page one more round for each use counted.
//
// The small queue gives the victim while it holds at least its share, else the
// main queue does. Whether the ghost queue remembers the incoming page is
// looked up before the eviction, which cannot push it out. A victim that comes
// back before any other page is inserted was kept: it enters the small queue as
// a new page. A page that Remove takes out leaves no ghost. 9 bytes a page.
type S3FIFO struct {
	nodes    links   // page p at p+s3Base; sentinels are the queue numbers
	meta     []uint8 // by page: queue in the low two bits, count of uses above
	size     [s3Base]int
	small    int // frames of the small queue
	ghosts   int // most entries of the ghost queue
	frames   int
	capMeta  uint8 // meta at or above this has the highest count
	promoted uint8 // counts at or above this move to main
	victim   Page  // the last victim, until another page is inserted
}

// The queues of S3FIFO.
const (
	s3None = iota
	s3Small
	s3Main
	s3Ghost
	s3Base // node index of page 0

	s3Queue = 3 // mask of the queue in meta
	s3Use   = 4 // one use in meta
)

// NewS3FIFO makes an S3FIFO of frames frames for pages below pages.
func NewS3FIFO(frames, pages int, params S3FIFOParams) (*S3FIFO, error) {
	if err := checkSize("s3-fifo", frames, MinFramesS3FIFO, pages); err != nil {
		return nil, err
	}
	if err := params.fill(); err != nil {
		return nil, err
	}
	small := portion(params.Small, frames, frames-1)
	return &S3FIFO{
		nodes: newLinks(pages, s3Base), meta: make([]uint8, pages),
		small: small, ghosts: portion(params.Ghost, frames-small, MaxPages), frames: frames,
		capMeta: uint8(params.Cap * s3Use), promoted: uint8(params.Promote + 1), victim: None,
	}, nil
}

// Name returns s3-fifo.
func (s *S3FIFO) Name() string { return "s3-fifo" }

// Cap returns the number of frames.
func (s *S3FIFO) Cap() int { return s.frames }

// Len returns the number of resident pages.
func (s *S3FIFO) Len() int { return s.size[s3Small] + s.size[s3Main] }

// Grow prepares for pages below pages.
func (s *S3FIFO) Grow(pages int) {
	s.nodes = grown(s.nodes, pages+s3Base)
	s.meta = grown(s.meta, pages)
}

// Hit counts a use of p, up to the highest count.
func (s *S3FIFO) Hit(p Page) {
	if m := s.meta[p]; m < s.capMeta {
		s.meta[p] = m + s3Use
	}
}

// Insert adds p to the main queue if the ghost queue remembers it, else to the
// small queue.
func (s *S3FIFO) Insert(p Page) {
	to := uint32(s3Small)
	if s.meta[p]&s3Queue == s3Ghost {
		if p != s.victim {
			to = s3Main
		}
		s.drop(uint32(p) + s3Base)
	}
	s.victim = None
	s.push(to, p)
}

// Victim evicts from the small queue while that holds its share, else from the
// main queue, and from the other one when pins hold all that is in a queue.
// Each resident page is looked at a bounded number of times: a move from small
// to main happens once, and a round in main costs the page a use.
func (s *S3FIFO) Victim(incoming Page, pins Pins) Page {
	if pins != nil {
		return s.victimPinned(incoming, pins)
	}
	for s.size[s3Small] >= s.small || s.size[s3Main] == 0 {
		i := s.nodes[s3Small].prev
		if i == s3Small {
			return None
		}
		if s.evictSmall(i, incoming) {
			return s.victim
		}
	}
	for {
		if i := s.nodes[s3Main].prev; s.evictMain(i) {
			return s.victim
		}
	}
}

// evictSmall evicts node i of the small queue, or moves it to the main queue
// and returns false.
func (s *S3FIFO) evictSmall(i uint32, incoming Page) bool {
	p := Page(i - s3Base)
	uses := s.meta[p] / s3Use
	s.drop(i)
	if uses >= s.promoted {
		s.push(s3Main, p)
		return false
	}
	s.push(s3Ghost, p)
	s.trim(incoming)
	s.victim = p
	return true
}

// evictMain evicts node i of the main queue, or takes a use from it, makes it
// the newest and returns false.
func (s *S3FIFO) evictMain(i uint32) bool {
	p := Page(i - s3Base)
	if s.meta[p] < s3Use {
		s.drop(i)
		s.victim = p
		return true
	}
	s.meta[p] -= s3Use
	s.nodes.unlink(i)
	s.nodes.push(s3Main, i)
	return false
}

// victimPinned is Victim with pins: a pinned page keeps its place and count.
// The walks never start over at pages that are known to be pinned.
func (s *S3FIFO) victimPinned(incoming Page, pins Pins) Page {
	for i := s.nodes[s3Small].prev; i != s3Small && s.size[s3Small] >= s.small; {
		newer := s.nodes[i].prev
		if !pins.Pinned(Page(i-s3Base)) && s.evictSmall(i, incoming) {
			return s.victim
		}
		i = newer
	}
	for movable := true; movable; {
		movable = false
		left := s.size[s3Main] // a page that gets another round is seen in the next pass
		for i := s.nodes[s3Main].prev; left > 0; left-- {
			newer := s.nodes[i].prev
			if !pins.Pinned(Page(i - s3Base)) {
				if s.evictMain(i) {
					return s.victim
				}
				movable = true
			}
			i = newer
		}
	}
	// Pins hold all of main: the small queue gives its oldest even below its
	// share, whatever its count, since main could not give a page in return.
	i := s.nodes.lastUnpinned(s3Small, s3Base, pins)
	if i == s3Small {
		return None
	}
	s.meta[i-s3Base] = s3Small
	s.evictSmall(i, incoming)
	return s.victim
}

// trim drops the oldest ghosts above the limit. A ghost of the incoming page
// stays and does not count: its page is about to be inserted.
func (s *S3FIFO) trim(incoming Page) {
	limit, spared := s.ghosts, uint32(s3Ghost)
	if int(incoming) < len(s.meta) && s.meta[incoming]&s3Queue == s3Ghost {
		limit++
		spared = uint32(incoming) + s3Base
	}
	for s.size[s3Ghost] > limit {
		i := s.nodes[s3Ghost].prev
		if i == spared {
			i = s.nodes[i].prev
		}
		s.drop(i)
	}
}

// Remove takes p out; no ghost remembers it.
func (s *S3FIFO) Remove(p Page) { s.drop(uint32(p) + s3Base) }

// drop takes node i out of its queue.
func (s *S3FIFO) drop(i uint32) {
	p := i - s3Base
	s.size[s.meta[p]&s3Queue]--
	s.meta[p] = s3None
	s.nodes.unlink(i)
}

// push makes p the newest page of queue q, with a count of zero.
func (s *S3FIFO) push(q uint32, p Page) {
	s.size[q&s3Queue]++
	s.meta[p] = uint8(q)
	s.nodes.push(q, uint32(p)+s3Base)
}
