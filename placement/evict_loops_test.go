package placement_test

import "github.com/tritier/tritier/placement"

// Two-tier replays, one per concrete type so that the compiler can inline the
// methods, as the simulator's loops do.

func missesLRU(e *placement.LRU, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesFIFO(e *placement.FIFO, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesClock(e *placement.Clock, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesSieve(e *placement.Sieve, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesRandom(e *placement.Random, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesLFU(e *placement.LFU, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesARC(e *placement.ARC, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesS3FIFO(e *placement.S3FIFO, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesTwoQ(e *placement.TwoQ, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesLIRS(e *placement.LIRS, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesWTinyLFU(e *placement.WTinyLFU, accesses []uint32, in []uint8) int {
	misses := 0
	for _, a := range accesses {
		p := placement.Page(a >> 2)
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}

func missesBelady(e *placement.Belady, f *placement.Future, accesses []uint32, in []uint8) int {
	misses := 0
	for i, a := range accesses {
		p := placement.Page(a >> 2)
		f.At(uint32(i))
		if in[p] != 0 {
			e.Hit(p)
			continue
		}
		misses++
		if e.Len() == e.Cap() {
			in[e.Victim(p, nil)] = 0
		}
		e.Insert(p)
		in[p] = 1
	}
	return misses
}
