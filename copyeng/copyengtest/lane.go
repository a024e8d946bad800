package copyengtest

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/tritier/tritier/copyeng"
)

// pageSizes are all that engines take.
func pageSizes() (list []int) {
	for size := copyeng.MinPage; size <= copyeng.MaxPage; size *= 2 {
		list = append(list, size)
	}
	return list
}

// span is a range of a space in bytes. Its pages are those that lie in it whole.
type span struct{ from, to uint64 }

// pages gives the first page and the number of pages.
func (s span) pages(size int) (first, n uint32) {
	n64 := uint64(size)
	first64 := (s.from + n64 - 1) / n64
	if end := s.to / n64; end > first64 {
		return uint32(first64), uint32(end - first64)
	}
	return uint32(first64), 0
}

// halves cuts a span in two.
func (s span) halves() (low, high span) {
	mid := s.from + roundUp((s.to-s.from)/2)
	return span{s.from, mid}, span{mid, s.to}
}

func whole(m *memory) span { return span{0, m.space.Size()} }

// pick draws n different pages of a span, mostly in random order, sometimes in
// one that an engine may treat as a single run. n is at most their number.
func pick(r *rand.Rand, s span, size, n int) []uint32 {
	first, have := s.pages(size)
	list := make([]uint32, 0, n)
	if style := r.IntN(8); style < 2 {
		start := first + uint32(r.IntN(int(have)-n+1))
		for i := range n {
			list = append(list, start+uint32(i))
		}
		if style == 1 {
			slices.Reverse(list)
		}
		return list
	}
	if n > int(have)/4 {
		for _, i := range r.Perm(int(have))[:n] {
			list = append(list, first+uint32(i))
		}
		return list
	}
	taken := make(map[uint32]bool, n)
	for len(list) < n {
		p := first + uint32(r.IntN(int(have)))
		if !taken[p] {
			taken[p] = true
			list = append(list, p)
		}
	}
	return list
}

// pickSources draws n pages, which may repeat.
func pickSources(r *rand.Rand, s span, size, n int) []uint32 {
	first, have := s.pages(size)
	if n <= int(have) && r.IntN(4) != 0 {
		return pick(r, s, size, n)
	}
	list := make([]uint32, n)
	for i := range list {
		list[i] = first + uint32(r.IntN(int(have)))
	}
	return list
}

// pairs draws a batch's pages: different destinations, sources that may repeat.
func pairs(r *rand.Rand, d copyeng.Direction, size, n int, host, device span) []copyeng.Pair {
	list := make([]copyeng.Pair, n)
	if n == 0 {
		return list
	}
	from, to := host, device
	if d == copyeng.ToHost {
		from, to = device, host
	}
	sources, destinations := pickSources(r, from, size, n), pick(r, to, size, n)
	for i := range list {
		if d == copyeng.ToDevice {
			list[i] = copyeng.Pair{Host: sources[i], Device: destinations[i]}
		} else {
			list[i] = copyeng.Pair{Host: destinations[i], Device: sources[i]}
		}
	}
	return list
}

// lane is a queue with the parts of both spaces that its batches alone write.
// All lanes of a world read a further part, which nobody writes. So lanes may
// be in flight together, and be driven by different goroutines, and the result
// is still known.
type lane struct {
	*world
	q            copyeng.Queue
	r            *rand.Rand
	host, device span // written by this lane
	sharedHost   span // read by all
	sharedDevice span
	maxPage      int // bytes
	maxPages     int // of a batch
	maxBatch     int // bytes of a batch
}

// lanes makes n lanes with queues of their own. A quarter of each space is
// the shared part.
func (w *world) lanes(n int) ([]*lane, error) {
	hostShared, deviceShared := roundUp(whole(w.host).to/4), roundUp(whole(w.device).to/4)
	hostOwn := (whole(w.host).to - hostShared) / uint64(n) / granule * granule
	deviceOwn := (whole(w.device).to - deviceShared) / uint64(n) / granule * granule
	list := make([]*lane, n)
	for i := range list {
		q, err := w.engine.NewQueue()
		if err != nil {
			return nil, fmt.Errorf("queue %d: %w", i, err)
		}
		k := uint64(i)
		list[i] = &lane{
			world: w, q: q, r: rand.New(rand.NewPCG(w.rng.Uint64(), k)),
			host:       span{hostShared + k*hostOwn, hostShared + (k+1)*hostOwn},
			device:     span{deviceShared + k*deviceOwn, deviceShared + (k+1)*deviceOwn},
			sharedHost: span{0, hostShared}, sharedDevice: span{0, deviceShared},
			maxPage: copyeng.MaxPage, maxPages: 1025, maxBatch: 4 << 20,
		}
	}
	return list, nil
}

// step starts a random batch, or an exchange.
func (l *lane) step() error {
	if l.r.IntN(5) == 0 {
		return l.exchangeStep()
	}
	d := copyeng.Direction(l.r.IntN(2))
	// From the part that all read, or from what this lane wrote before.
	host, device := l.host, l.device
	if shared := l.r.IntN(2) == 0; shared && d == copyeng.ToDevice {
		host = l.sharedHost
	} else if shared {
		device = l.sharedDevice
	}
	return l.copy(l.q, l.draw(d, host, device))
}

// exchangeStep starts an exchange: in from the shared host memory to half of
// the lane's device memory, out from the other half.
func (l *lane) exchangeStep() error {
	low, high := l.device.halves()
	in := l.draw(copyeng.ToDevice, l.sharedHost, low)
	out := l.draw(copyeng.ToHost, l.host, high)
	return l.exchange(l.q, in, out)
}

// draw makes a batch between two spans, of random page size and number; small
// numbers and sizes are as likely as large ones. It is empty if no page fits.
func (l *lane) draw(d copyeng.Direction, host, device span) *copyeng.Batch {
	sizes := pageSizes()
	size := sizes[l.r.IntN(bits.Len(uint(l.maxPage/copyeng.MinPage)))]
	_, hosts := host.pages(size)
	_, devices := device.pages(size)
	limit := min(l.maxPages, max(1, l.maxBatch/size), int(hosts))
	if d == copyeng.ToDevice {
		limit = min(limit, int(devices))
	} else if devices == 0 {
		limit = 0
	}
	if hosts == 0 {
		limit = 0
	}
	return l.batch(d, size, pairs(l.r, d, size, l.number(limit), host, device))
}

// number draws from 0 to limit, about evenly over powers of two.
func (l *lane) number(limit int) int {
	if limit == 0 || l.r.IntN(50) == 0 {
		return 0
	}
	high := 1 << l.r.IntN(bits.Len(uint(limit)))
	return min(limit, high+l.r.IntN(high))
}

// check compares what the lane may have written. Others may be in flight.
func (l *lane) check() error {
	if err := l.world.host.checkSpan(l.host); err != nil {
		return err
	}
	return l.world.device.checkSpan(l.device)
}
