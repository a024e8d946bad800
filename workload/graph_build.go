package workload

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// generate makes a graph of 2^scale vertices from so many undirected edges.
//
// Edges come in random order, and to put each into its list at once would be a miss of
// caches and page tables for every one, twice: minutes for 20 GiB. So they are parted first,
// by pieces that are written in order (radix partitioning, as Manegold, Boncz and Kersten,
// 2002), into ranges of vertices whose counts fit into a cache, and sorted there.
func generate(ctx context.Context, k kronecker, edges uint64) (*csr, error) {
	return build(ctx, k, edges, rangeShift(k.scale))
}

// build is generate with ranges of 2^shift vertices.
func build(ctx context.Context, k kronecker, edges uint64, shift int) (*csr, error) {
	b := builder{d: k.drawer(), drawn: edges, shift: shift, g: &csr{offsets: make([]uint64, uint64(1)<<k.scale+1)}}
	for _, step := range []func(context.Context) error{b.count, b.part, b.sort} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.close()
	return b.g, nil
}

// rangeShift is log2 of the vertices in a range: some two thousand ranges, each with a place
// in a cache to collect pieces for it, and numbers in it that fit 16 bits.
func rangeShift(scale int) int { return min(max(scale-11, 0), 16) }

// drawnPart is the edges that a goroutine draws at a time, and pieceEdges what is collected
// for a range before it is written.
const (
	drawnPart  = 1 << 14
	pieceEdges = 64
)

// builder makes a csr. Edge i of a range is to to[i] from its vertex number from[i].
type builder struct {
	d      drawer
	drawn  uint64
	shift  int
	g      *csr
	starts []uint64 // of the ranges' edges, and where the last ends
	kept   []uint64 // edges of the ranges without duplicates
	to     []uint32
	from   []uint16
}

func (b *builder) ranges() uint64 { return (b.g.vertices()-1)>>b.shift + 1 }

// draw draws the edges of a part, both ways.
func (b *builder) draw(low, high uint64, f func(from, to uint32)) {
	for i := low; i < high; i++ {
		if u, v := b.d.edge(i); u != v {
			f(u, v)
			f(v, u)
		}
	}
}

// count finds where each range begins.
func (b *builder) count(ctx context.Context) error {
	b.starts = make([]uint64, b.ranges()+1)
	var mu sync.Mutex // of starts
	err := workers(ctx, b.drawn, drawnPart, func() []uint64 { return make([]uint64, b.ranges()) },
		func(counts []uint64, low, high uint64) {
			b.draw(low, high, func(from, _ uint32) { counts[from>>b.shift]++ })
		},
		func(counts []uint64) {
			mu.Lock()
			defer mu.Unlock()
			for r, n := range counts {
				b.starts[r+1] += n
			}
		})
	for r := range b.ranges() {
		b.starts[r+1] += b.starts[r]
	}
	return err
}

// piece is what a goroutine has collected for a range.
type piece struct {
	n    int
	to   [pieceEdges]uint32
	from [pieceEdges]uint16
}

// part draws the edges again and writes them to their ranges, in an order left to chance.
func (b *builder) part(ctx context.Context) error {
	n := b.starts[b.ranges()]
	b.to, b.from = make([]uint32, n), make([]uint16, n)
	next := slices.Clone(b.starts)
	flush := func(r int, p *piece) {
		at := atomic.AddUint64(&next[r], uint64(p.n)) - uint64(p.n)
		copy(b.to[at:], p.to[:p.n])
		copy(b.from[at:], p.from[:p.n])
		p.n = 0
	}
	return workers(ctx, b.drawn, drawnPart, func() []piece { return make([]piece, b.ranges()) },
		func(pieces []piece, low, high uint64) {
			b.draw(low, high, func(from, to uint32) {
				r := from >> b.shift
				p := &pieces[r]
				p.to[p.n], p.from[p.n] = to, uint16(from&(1<<b.shift-1))
				if p.n++; p.n == pieceEdges {
					flush(int(r), p)
				}
			})
		},
		func(pieces []piece) {
			for r := range pieces {
				flush(r, &pieces[r])
			}
		})
}

// sorter is what a goroutine needs to sort ranges.
type sorter struct {
	next []uint64 // places of the vertices' edges, shifted by one
	to   []uint32
}

// sort puts the edges of each range in order, without duplicates.
func (b *builder) sort(ctx context.Context) error {
	b.kept = make([]uint64, b.ranges())
	err := workers(ctx, b.ranges(), 1, func() *sorter { return &sorter{next: make([]uint64, 1<<b.shift+1)} },
		func(s *sorter, low, high uint64) {
			for r := low; r < high; r++ {
				b.kept[r] = b.sortRange(s, r)
			}
		}, func(*sorter) {})
	b.from = nil
	return err
}

// sortRange sorts one range, leaves its vertices' degrees in offsets, one further, and
// returns their sum.
func (b *builder) sortRange(s *sorter, r uint64) (kept uint64) {
	to, from := b.to[b.starts[r]:b.starts[r+1]], b.from[b.starts[r]:b.starts[r+1]]
	clear(s.next)
	for _, v := range from {
		s.next[int(v)+1]++ // 16 bits do not hold the number after the last
	}
	for v := range len(s.next) - 1 {
		s.next[v+1] += s.next[v]
	}
	if len(s.to) < len(to) {
		s.to = make([]uint32, len(to))
	}
	for i, v := range from {
		s.to[s.next[v]] = to[i]
		s.next[v]++
	}
	degrees := b.g.offsets[r<<b.shift+1:]
	begin := uint64(0)
	for v := range 1 << b.shift {
		list := s.to[begin:s.next[v]]
		begin = s.next[v]
		slices.Sort(list)
		list = slices.Compact(list)
		degrees[v] = uint64(len(list))
		kept += uint64(copy(to[kept:], list))
	}
	return kept
}

// close moves the ranges together: few large pieces, which one processor is enough for.
func (b *builder) close() {
	end := uint64(0)
	for r, n := range b.kept {
		end += uint64(copy(b.to[end:], b.to[b.starts[r]:b.starts[r]+n]))
	}
	b.g.edges = b.to[:end]
	for v := range b.g.vertices() {
		b.g.offsets[v+1] += b.g.offsets[v]
	}
}
