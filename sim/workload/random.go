package workload

import (
	"math/bits"
	"math/rand/v2"
)

// Streams of one seed that must not share their numbers: a write fraction, for
// example, must not change which pages are accessed.
const (
	pageStream uint64 = iota + 1
	writeStream
	choiceStream
	sourceStream
)

// source is a PCG stream. Only its Uint64 is used: what rand.Rand derives from
// it may change between versions of Go.
type source struct{ pcg *rand.PCG }

func newSource(seed, stream uint64) source {
	return source{rand.NewPCG(seed, hash(stream))}
}

// below returns a uniform number in [0, n), n > 0, without bias: multiply and
// reject (Lemire, ACM TOMACS 29(1), 2019).
func (s source) below(n uint64) uint64 {
	high, low := bits.Mul64(s.pcg.Uint64(), n)
	if low < n {
		for reject := -n % n; low < reject; {
			high, low = bits.Mul64(s.pcg.Uint64(), n)
		}
	}
	return high
}

// unit returns a uniform multiple of 2^-53 in [0, 1).
func (s source) unit() float64 { return float64(s.pcg.Uint64()>>11) * 0x1p-53 }

// chance is an event with a fixed probability, exact to 2^-53.
type chance struct {
	source
	below53 uint64 // probability times 2^53
}

func newChance(seed, stream uint64, p float64) chance {
	return chance{newSource(seed, stream), uint64(p * 0x1p53)}
}

// happens draws once; an event that never happens draws nothing.
func (c chance) happens() bool {
	return c.below53 > 0 && c.pcg.Uint64()>>11 < c.below53
}

// hash is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)
// after one step of its counter.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// permutation is a seeded bijection of [0, n) in constant memory: a Feistel
// network over as many bits as n-1 has, walked along its cycle until it is
// back inside (Black and Rogaway, CT-RSA 2002).
type permutation struct {
	n         uint64
	low, high uint // bits of the two halves, equal or one apart
	keys      [4]uint64
}

func newPermutation(n, seed uint64) permutation {
	width := uint(bits.Len64(n - 1))
	p := permutation{n: n, low: width / 2, high: width - width/2}
	for i := range p.keys {
		p.keys[i] = hash(hash(seed) + uint64(i))
	}
	return p
}

// at maps x < n. Less than two steps of the walk are expected.
func (p *permutation) at(x uint64) uint64 {
	for {
		low, high := x&(1<<p.low-1), x>>p.low
		for i := 0; i < len(p.keys); i += 2 {
			high ^= hash(p.keys[i]^low) & (1<<p.high - 1)
			low ^= hash(p.keys[i+1]^high) & (1<<p.low - 1)
		}
		if x = high<<p.low | low; x < p.n {
			return x
		}
	}
}
