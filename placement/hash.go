package placement

// Hash is the stateless random source of every policy: a function of the
// seed, the virtual time and the page, the same in Go and in CUDA, so that
// simulator, host engine and GPU engine draw equal numbers. It chains the
// 64-bit finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func Hash(seed, now uint64, p Page) uint64 {
	return mix(mix(seed+0x9e3779b97f4a7c15*(now+1)) ^ (uint64(p) + 0xd1b54a32d192ed03))
}

// mix is splitmix64's finaliser: a bijection in which every input bit reaches
// every output bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
