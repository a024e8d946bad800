package placement

// MinFramesLFU is the smallest number of frames that LFU accepts.
const MinFramesLFU = 1

// LFU evicts the page with the fewest uses since it was inserted; among equals
// the one whose last use is longest ago. A page that leaves loses its count.
// Every step takes constant time: pages with equal counts share a bucket, and
// the buckets form a list in the order of their counts (Shah, Mitra and
// Matani, 2010). 12 bytes a page, 24 for each distinct count in use.
type LFU struct {
	nodes    links    // ring of the pages of one bucket, at p
	bucketOf []uint32 // bucket, by resident page
	buckets  []lfuBucket
	spare    uint32 // chain, by up, of buckets without pages; 0 ends it
	n        int
	frames   int
}

// lfuBucket holds the pages that were used count times. Bucket 0 is the
// sentinel of the list of buckets: its up is the lowest count.
type lfuBucket struct {
	count    uint64
	oldest   uint32 // the page used longest ago; its prev is the newest
	up, down uint32 // the buckets with the next higher and lower count
}

// NewLFU makes an LFU of frames frames for pages below pages.
func NewLFU(frames, pages int) (*LFU, error) {
	if err := checkSize("lfu", frames, MinFramesLFU, pages); err != nil {
		return nil, err
	}
	return &LFU{
		nodes: make(links, pages), bucketOf: make([]uint32, pages),
		buckets: make([]lfuBucket, 1, min(frames+2, 4096)), frames: frames,
	}, nil
}

// Name returns lfu.
func (l *LFU) Name() string { return "lfu" }

// Cap returns the number of frames.
func (l *LFU) Cap() int { return l.frames }

// Len returns the number of resident pages.
func (l *LFU) Len() int { return l.n }

// Grow prepares for pages below pages.
func (l *LFU) Grow(pages int) {
	l.nodes = grown(l.nodes, pages)
	l.bucketOf = grown(l.bucketOf, pages)
}

// Hit adds one to the count of p.
func (l *LFU) Hit(p Page) {
	b := l.bucketOf[p]
	count := l.buckets[b].count + 1
	up := l.buckets[b].up
	fits := up != 0 && l.buckets[up].count == count
	if !fits && l.nodes[p].next == uint32(p) {
		l.buckets[b].count = count // alone in its bucket: the bucket moves
		return
	}
	if !fits {
		up = l.newBucket(b, count)
	}
	l.leave(b, uint32(p))
	l.join(up, uint32(p))
}

// Insert adds p with a count of one.
func (l *LFU) Insert(p Page) {
	b := l.buckets[0].up
	if b == 0 || l.buckets[b].count != 1 {
		b = l.newBucket(0, 1)
	}
	l.join(b, uint32(p))
	l.n++
}

// Victim takes out the page with the fewest uses that is not pinned.
func (l *LFU) Victim(_ Page, pins Pins) Page {
	b := l.buckets[0].up
	if b == 0 {
		return None
	}
	v := l.buckets[b].oldest
	if pins != nil {
		if v = l.unpinned(pins); Page(v) == None {
			return None
		}
	}
	l.Remove(Page(v))
	return Page(v)
}

// unpinned walks the pages in the order in which they would leave.
func (l *LFU) unpinned(pins Pins) uint32 {
	for b := l.buckets[0].up; b != 0; b = l.buckets[b].up {
		first := l.buckets[b].oldest
		for i := first; ; {
			if !pins.Pinned(Page(i)) {
				return i
			}
			if i = l.nodes[i].next; i == first {
				break
			}
		}
	}
	return uint32(None)
}

// Remove takes p out.
func (l *LFU) Remove(p Page) {
	l.leave(l.bucketOf[p], uint32(p))
	l.n--
}

// newBucket makes an empty bucket for count, next above bucket below. Only
// join makes it whole: its caller puts a page in at once.
func (l *LFU) newBucket(below uint32, count uint64) uint32 {
	b := l.spare
	if b != 0 {
		l.spare = l.buckets[b].up
	} else {
		b = uint32(len(l.buckets))
		l.buckets = append(l.buckets, lfuBucket{})
	}
	up := l.buckets[below].up
	l.buckets[b] = lfuBucket{count: count, oldest: uint32(None), up: up, down: below}
	l.buckets[up].down = b
	l.buckets[below].up = b
	return b
}

// join makes page i the newest of bucket b.
func (l *LFU) join(b, i uint32) {
	l.bucketOf[i] = b
	o := l.buckets[b].oldest
	if o == uint32(None) {
		l.buckets[b].oldest = i
		l.nodes[i] = link{i, i}
		return
	}
	newest := l.nodes[o].prev
	l.nodes[i] = link{prev: newest, next: o}
	l.nodes[newest].next = i
	l.nodes[o].prev = i
}

// leave takes page i out of bucket b, and b out of its list once it is empty.
func (l *LFU) leave(b, i uint32) {
	next := l.nodes[i].next
	if next != i {
		l.nodes.unlink(i)
		if l.buckets[b].oldest == i {
			l.buckets[b].oldest = next
		}
		return
	}
	up, down := l.buckets[b].up, l.buckets[b].down
	l.buckets[down].up = up
	l.buckets[up].down = down
	l.buckets[b].up = l.spare
	l.spare = b
}
