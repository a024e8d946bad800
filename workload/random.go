package workload

// hash is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) after
// one step of its counter.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw is element i of a stream of random numbers; streams of one seed share
// nothing.
func draw(seed, stream, i uint64) uint64 { return hash(keyOf(seed, stream) + i) }

func keyOf(seed, stream uint64) uint64 { return hash(seed ^ hash(stream)) }

// unit is draw as a multiple of 2^-24 in [0, 1), which a float32 holds exactly.
func unit(seed, stream, i uint64) float32 { return asUnit(draw(seed, stream, i)) }

func asUnit(x uint64) float32 { return float32(x>>40) * 0x1p-24 }

// units fills arrays with unit values between low and high.
func units(seed, stream uint64, low, high float32) func(first uint64, dst []float32) {
	key := keyOf(seed, stream)
	return func(first uint64, dst []float32) {
		for i := range dst {
			dst[i] = low + float32((high-low)*asUnit(hash(key+first+uint64(i))))
		}
	}
}
