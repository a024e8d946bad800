package soft

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestResolve compares lookups, remembered and not, with a search of every region,
// while regions come and go.
func TestResolve(t *testing.T) {
	const seed = 7
	t.Log("seed ", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	a, err := newArena(pageSize, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	want := func(iova, n uint64) unsafe.Pointer {
		for _, x := range *a.regions.Load() {
			if iova >= x.iova && iova-x.iova < x.size && n <= x.size-(iova-x.iova) {
				return unsafe.Add(x.base, iova-x.iova)
			}
		}
		return nil
	}
	var l lookup
	hits := 0
	for round := range 20000 {
		switch {
		case round%100 == 0 || len(*a.regions.Load()) == 0:
			if m, err := a.alloc(pageSize * (1 + r.IntN(4))); err == nil && r.IntN(3) == 0 {
				if err := m.Free(); err != nil {
					t.Fatal(err)
				}
			}
		case round%1000 == 999:
			for m := range a.live {
				if err := m.Free(); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		rs := *a.regions.Load()
		x := rs[r.IntN(min(len(rs), 6))] // a few of them often
		iova, n := x.iova+r.Uint64N(x.size+2*pageSize)-pageSize, 1+r.Uint64N(2*pageSize)
		if r.IntN(50) == 0 {
			iova = [...]uint64{0, arenaIOVA, 1<<64 - 1, mapIOVA}[r.IntN(4)]
		}
		p := a.resolve(iova, n, &l)
		if p != want(iova, n) {
			t.Fatalf("round %d: %d bytes at %#x: %p, want %p", round, n, iova, p, want(iova, n))
		}
		if p != nil {
			hits++
		}
	}
	if hits < 1000 {
		t.Errorf("only %d lookups found memory", hits)
	}
}

// BenchmarkResolve: neither a region's size nor the number of regions counts, as
// long as a queue uses few of them.
func BenchmarkResolve(b *testing.B) {
	big, err := unix.Mmap(-1, 0, 8<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(big); err != nil {
			b.Error(err)
		}
	}()
	a, err := newArena(pageSize, 16<<20)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := a.close(); err != nil {
			b.Error(err)
		}
	}()
	for range 1000 {
		if _, err := a.alloc(pageSize); err != nil {
			b.Fatal(err)
		}
	}
	m, err := a.adopt(big)
	if err != nil {
		b.Fatal(err)
	}
	base, _ := m.IOVA(0)
	for name, at := range map[string]func(i uint64) uint64{
		"one of 8 GiB":  func(i uint64) uint64 { return base + i*0x9e3779b97f4a7c15>>31&^(pageSize-1) },
		"three of 1001": func(i uint64) uint64 { return [...]uint64{base, arenaIOVA + 5*pageSize, arenaIOVA + 901*pageSize}[i%3] },
		"all of 1001":   func(i uint64) uint64 { return arenaIOVA + (1+i*7919%1000*2)*pageSize },
	} {
		b.Run(name, func(b *testing.B) {
			var l lookup
			for i := uint64(0); b.Loop(); i++ {
				if a.resolve(at(i), 512, &l) == nil {
					b.Fatal("memory is not found")
				}
			}
		})
	}
}
