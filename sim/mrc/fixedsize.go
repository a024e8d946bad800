package mrc

import (
	"math"
	"math/bits"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// FixedSize measures the stack distances of a sample that never has more pages
// than a limit: SHARDS at a fixed size. All pages are sampled until there are
// too many; then the pages with the largest sample points leave, and the rate
// becomes the first point that is not sampled any more.
//
// The authors multiply the counts so far by new rate over old rate whenever the
// rate falls. An access here adds 1 over the rate at its time, which comes to
// the same, up to a factor that all counts share, and costs nothing.
//
// Memory depends on the limit alone. A FixedSize has one owner.
type FixedSize struct {
	seed   uint64
	limit  int
	below  uint64 // sample points below it are sampled
	weight float64
	stack  *stack
	entry  map[uint64]uint32 // key of a sampled page -> its entry of the stack
	heap   pointHeap
	free   []uint32 // entries to use again

	depths [kinds][]float64 // weights by bucket of the depth in the whole trace
	first  [kinds]float64
	phase  float64 // where in its range of depths the next access is counted

	positions, prefetched, sampled uint64
	pages                          int // distinct pages, where somebody knows
}

// NewFixedSize samples at most limit pages, at least one; the seed chooses them.
func NewFixedSize(limit int, seed uint64) *FixedSize {
	return &FixedSize{seed: seed, limit: max(limit, 1), below: sim.SampledBelow(1), weight: 1,
		stack: newStack(0), entry: map[uint64]uint32{}}
}

// Run takes the next accesses of the trace, whose pages are below pages.
func (f *FixedSize) Run(accs []tier.Access, pages int) {
	f.pages = max(f.pages, pages)
	for _, a := range accs {
		if point := sim.SamplePoint(f.seed, a.Page()); point < f.below {
			f.take(uint64(a.Page()), point, kindOf[a.Op()])
		}
		f.prefetched += uint64(kindOf[a.Op()]) >> 1
	}
	f.positions += uint64(len(accs))
}

// take counts an access to the sampled page of that key and point.
func (f *FixedSize) take(key, point uint64, kind uint8) {
	f.sampled++
	if f.stack.room() == 0 {
		f.stack.compact()
	}
	e, known := f.entry[key]
	if known {
		f.count(f.stack.use(e), kind)
		return
	}
	f.first[kind] += f.weight
	f.add(key, point)
	if len(f.entry) > f.limit {
		f.shrink()
	}
}

// goldenRatio spreads the fractions of its multiples evenly over 0 to 1.
const goldenRatio = 0.6180339887498949

// count adds an access that found its page at a depth of the sample. In the
// whole trace it lies somewhere from depth-1 to depth sizes of a frame of the
// sample; consecutive accesses are spread evenly over that range.
func (f *FixedSize) count(depth uint32, kind uint8) {
	at := float64(depth)
	if f.weight > 1 {
		_, f.phase = math.Modf(f.phase + goldenRatio)
		at -= f.phase
	}
	i := bucketOf(uint64(math.Ceil(at * f.weight)))
	f.depths[kind] = extend(f.depths[kind], i+1)
	f.depths[kind][i] += f.weight
}

// add makes the page of that key an entry on top of the stack.
func (f *FixedSize) add(key, point uint64) {
	e := uint32(len(f.entry))
	if n := len(f.free); n > 0 {
		e, f.free = f.free[n-1], f.free[:n-1]
	}
	f.stack.grow(int(e) + 1)
	f.stack.use(e)
	f.entry[key] = e
	f.heap.push(sampledPage{point: point, key: key, entry: e})
}

// shrink takes out the pages with the largest point, which is the rate from now
// on.
func (f *FixedSize) shrink() {
	f.below = f.heap.list[0].point
	for len(f.heap.list) > 0 && f.heap.list[0].point >= f.below {
		p := f.heap.pop()
		f.stack.remove(p.entry)
		delete(f.entry, p.key)
		f.free = append(f.free, p.entry)
	}
	f.weight = float64(sim.SampledBelow(1)) / float64(max(f.below, 1))
}

// Profile is what was measured so far. It does not change when f goes on.
func (f *FixedSize) Profile() *Profile {
	p := &Profile{
		Method: Method{Rate: 1 / f.weight, MaxPages: f.limit, Seed: f.seed}, SampledPages: len(f.entry), Pages: f.pages,
		Accesses: f.positions - f.prefetched, Prefetches: f.prefetched, SampledAccesses: f.sampled,
		share: 1 / f.weight, bucket: true, first: f.first,
	}
	for kind, weights := range f.depths {
		c := make([]float64, max(len(weights), 1))
		sum := 0.0
		for i, w := range weights {
			sum += w
			c[i] = sum
		}
		p.upTo[kind] = c
	}
	return p
}

// Depths are counted in buckets: exact up to exactDepths frames, beyond that
// exactDepths/2 to each doubling, so that sizes are right to 0.2 %.
const (
	exactBits   = 10
	exactDepths = 1 << exactBits
)

// bucketOf is the bucket of a depth from 1 on; bucket 0 stays empty.
func bucketOf(depth uint64) int {
	if depth < exactDepths {
		return int(depth)
	}
	shift := bits.Len64(depth) - exactBits
	return shift<<(exactBits-1) + int(depth>>shift)
}

// bucketEnd is the largest depth of a bucket.
func bucketEnd(i int) int {
	if i < exactDepths {
		return i
	}
	shift := i>>(exactBits-1) - 1
	return (i-shift<<(exactBits-1)+1)<<shift - 1
}

// bucketPlace is how many buckets so many frames hold, the last one in part.
func bucketPlace(frames int) float64 {
	if frames < exactDepths {
		return float64(max(frames, 0))
	}
	i := bucketOf(uint64(frames))
	end, before := bucketEnd(i), bucketEnd(i-1)
	return float64(i-1) + float64(frames-before)/float64(end-before)
}

// sampledPage is a page in the sample of a FixedSize.
type sampledPage struct {
	point, key uint64
	entry      uint32
}

// pointHeap has the page with the largest point first.
type pointHeap struct{ list []sampledPage }

func (h *pointHeap) push(p sampledPage) {
	h.list = append(h.list, p)
	i := len(h.list) - 1
	for i > 0 && h.list[(i-1)/2].point < p.point {
		h.list[i] = h.list[(i-1)/2]
		i = (i - 1) / 2
	}
	h.list[i] = p
}

func (h *pointHeap) pop() sampledPage {
	top, n := h.list[0], len(h.list)-1
	p := h.list[n]
	h.list = h.list[:n]
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.list[child+1].point > h.list[child].point {
			child++
		}
		if h.list[child].point <= p.point {
			break
		}
		h.list[i] = h.list[child]
		i = child
	}
	if n > 0 {
		h.list[i] = p
	}
	return top
}
