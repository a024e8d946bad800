package devicetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/placement"
)

// ringSize is the samples of the ring: small, so that it wraps.
const ringSize = 16

// mailbox is Mailbox of engine.cuh, in a file that the rig maps too; samples
// follow at 4096, then a byte for each page: is it sampled?
type mailbox struct {
	Taken, Gate, Version, _ uint64
	Params                  [2]placement.ReuseParams
}

// serveReuse is the CPU's side of gmt-reuse for one run of the rig: placement's
// own code takes the samples, fits and publishes. The function that it returns
// ends it. The rig's arguments are added to args.
func serveReuse(t *testing.T, j job, args *[]string) func() {
	t.Helper()
	policy, err := policyOf(j)
	if err != nil {
		t.Fatal(err)
	}
	reuse := policy.Placer.(*placement.GMTReuse)
	fitEvery := uint64(64) // as policyText has it
	file := filepath.Join(t.TempDir(), "shared")
	size := 4096 + 16*ringSize + j.pages
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	m := (*mailbox)(unsafe.Pointer(&mem[0]))
	m.Gate, m.Params[0] = fitEvery, reuse.Report().Params
	for p := range j.pages {
		if reuse.Sampled(placement.Page(p)) {
			mem[4096+16*ringSize+p] = 1
		}
	}
	*args = append(*args, "shared="+file, "parity=1", fmt.Sprint("samples=", ringSize))
	done := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		s := sampler{mem: mem, m: m, reuse: reuse, fitEvery: fitEvery}
		for s.take() || !closed(done) {
			time.Sleep(20 * time.Microsecond)
		}
	})
	return func() {
		close(done)
		over.Wait()
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sampler takes samples in order.
type sampler struct {
	mem      []byte
	m        *mailbox
	reuse    *placement.GMTReuse
	fitEvery uint64
	taken    uint64
}

// take takes what has come and says whether anything had.
func (s *sampler) take() bool {
	before := s.taken
	for {
		at := 4096 + 16*int(s.taken%ringSize)
		mark := (*uint32)(unsafe.Pointer(&s.mem[at+12]))
		if atomic.LoadUint32(mark) != uint32(s.taken)+1 {
			return s.taken != before
		}
		s.reuse.Observe(binary.LittleEndian.Uint64(s.mem[at:]), placement.Page(binary.LittleEndian.Uint32(s.mem[at+8:])))
		s.taken++
		r := s.reuse.Report()
		if v := r.Params.Version; v != atomic.LoadUint64(&s.m.Version) {
			s.m.Params[v%2] = r.Params
			atomic.StoreUint64(&s.m.Version, v)
		}
		// No sample before this one can complete the next fit.
		atomic.StoreUint64(&s.m.Gate, s.taken+s.fitEvery-r.Samples%s.fitEvery)
		atomic.StoreUint64(&s.m.Taken, s.taken)
	}
}
