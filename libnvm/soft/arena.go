package soft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

const (
	arenaIOVA = 1 << 32 // address of the memfd's first byte in the controller's view
	mapIOVA   = 1 << 40 // first address of memory that callers bring
	pageSize  = libnvm.PageSize
)

// region is memory that the controller may access: all else is out of bounds.
type region struct {
	iova, size uint64
	base       unsafe.Pointer
}

// arena is the controller's memory: one memfd, mapped whole, with BAR0 first and
// what Alloc gives out behind it, and the table of regions.
type arena struct {
	fd   int
	mem  []byte
	free []span // of mem, sorted, guarded by mu

	mu      sync.Mutex
	nextMap uint64
	live    map[*libnvm.Memory]struct{} // what was given out and not freed
	closed  bool
	regions atomic.Pointer[[]region] // sorted by iova, replaced as a whole
}

type span struct{ off, size int }

func newArena(bar, limit int) (*arena, error) {
	fd, err := unix.MemfdCreate("nvme-soft-controller", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("soft: memfd: %w", err)
	}
	size := bar + limit
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("soft: memfd of %d bytes: %w", size, err), unix.Close(fd))
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		err = fmt.Errorf("soft: reserve %d bytes of address space: %w; lower Config.MemoryLimit", size, err)
		return nil, errors.Join(err, unix.Close(fd))
	}
	a := &arena{fd: fd, mem: mem, free: []span{{bar, limit}}, nextMap: mapIOVA, live: map[*libnvm.Memory]struct{}{}}
	a.regions.Store(&[]region{})
	return a, nil
}

// close frees the memory, once nothing serves commands any more. Memory that
// callers bring stays theirs; freeing what was given out does nothing from here
// on, since the descriptor's number may belong to another file.
func (a *arena) close() error {
	a.mu.Lock()
	left := slices.Collect(maps.Keys(a.live))
	a.mu.Unlock() // Detach may free the memory, which takes the lock
	var errs []error
	for _, m := range left {
		errs = append(errs, m.Detach())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return errors.Join(append(errs, unix.Munmap(a.mem), unix.Close(a.fd))...)
}

func (a *arena) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// keep takes note of memory. It needs mu.
func (a *arena) keep(m *libnvm.Memory) { a.live[m] = struct{}{} }

var errArenaClosed = fmt.Errorf("soft: memory is asked for after Close: %w", libnvm.ErrClosed)

// alloc takes whole pages off the first span that is large enough, and leaves a
// page that is no region behind them, so that an overrun is an error.
func (a *arena) alloc(n int) (*libnvm.Memory, error) {
	if n <= 0 {
		return nil, fmt.Errorf("soft: allocate %d bytes", n)
	}
	n = (n + pageSize - 1) &^ (pageSize - 1)
	need := n + pageSize
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errArenaClosed
	}
	i := slices.IndexFunc(a.free, func(s span) bool { return s.size >= need })
	if i < 0 {
		return nil, fmt.Errorf("soft: no %d bytes left; raise Config.MemoryLimit: %w", n, unix.ENOMEM)
	}
	off := a.free[i].off
	a.free[i].off += need
	a.free[i].size -= need
	if a.free[i].size == 0 {
		a.free = slices.Delete(a.free, i, i+1)
	}
	iova := uint64(arenaIOVA + off)
	buf := a.mem[off : off+n : off+n]
	a.insert(region{iova, uint64(n), unsafe.Pointer(&buf[0])})
	var m *libnvm.Memory
	m, err := libnvm.NewMemory(buf, iova, func() error { return a.release(m, iova, off, n) })
	if err == nil {
		a.keep(m)
	}
	return m, err
}

// release gives pages back to the system, so that they are zero when they come again.
func (a *arena) release(m *libnvm.Memory, iova uint64, off, n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, m)
	if a.closed {
		return nil
	}
	a.remove(iova)
	err := unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
	if err != nil {
		return fmt.Errorf("soft: free memory: %w", err)
	}
	s := span{off, n + pageSize}
	i, _ := slices.BinarySearchFunc(a.free, s, func(x, y span) int { return cmp.Compare(x.off, y.off) })
	a.free = slices.Insert(a.free, i, s)
	for k := min(i+1, len(a.free)-1); k > 0 && k >= i; k-- {
		if p := &a.free[k-1]; p.off+p.size == a.free[k].off {
			p.size += a.free[k].size
			a.free = slices.Delete(a.free, k, k+1)
		}
	}
	return nil
}

// adopt makes the caller's memory a region.
func (a *arena) adopt(buf []byte) (*libnvm.Memory, error) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	if len(buf) == 0 || len(buf)%pageSize != 0 || p%pageSize != 0 {
		return nil, &libnvm.MapError{Transport: name, Reason: fmt.Sprintf("%d bytes at %#x are not whole pages", len(buf), p),
			Remedy: "align address and length to 4096 bytes"}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errArenaClosed
	}
	iova := a.nextMap
	a.nextMap += uint64(len(buf)) + pageSize
	a.insert(region{iova, uint64(len(buf)), unsafe.Pointer(&buf[0])})
	var m *libnvm.Memory
	m, err := libnvm.NewMemory(buf, iova, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.live, m)
		a.remove(iova)
		return nil
	})
	if err == nil {
		a.keep(m)
	}
	return m, err
}

// insert and remove replace the table, which service threads read without a
// lock. They need mu.
func (a *arena) insert(r region) {
	old := *a.regions.Load()
	i, _ := slices.BinarySearchFunc(old, r.iova, func(x region, t uint64) int { return cmp.Compare(x.iova, t) })
	next := make([]region, 0, len(old)+1)
	next = append(append(append(next, old[:i]...), r), old[i:]...)
	a.regions.Store(&next)
}

func (a *arena) remove(iova uint64) {
	next := slices.DeleteFunc(slices.Clone(*a.regions.Load()), func(r region) bool { return r.iova == iova })
	a.regions.Store(&next)
}

// lookup remembers the regions found last, as long as the table is the same: a
// queue uses few (payload, PRP lists), however many there are.
type lookup struct {
	table  *[]region
	recent [4]region
	next   uint8 // place that the next one found takes
}

// resolve finds n bytes at iova, which must lie in one region, or returns nil.
// It takes the same time whatever the regions' sizes.
func (a *arena) resolve(iova, n uint64, l *lookup) unsafe.Pointer {
	table := a.regions.Load()
	if table == l.table {
		for i := range l.recent {
			if p := l.recent[i].at(iova, n); p != nil {
				return p
			}
		}
	}
	return l.search(table, iova, n)
}

// at is where n bytes at iova are, or nil when they are not all in the region.
func (r *region) at(iova, n uint64) unsafe.Pointer {
	if d := iova - r.iova; d < r.size && n <= r.size-d {
		return unsafe.Add(r.base, d)
	}
	return nil
}

// search looks the whole table up.
func (l *lookup) search(table *[]region, iova, n uint64) unsafe.Pointer {
	if table != l.table {
		*l = lookup{table: table}
	}
	rs := *table
	lo, hi := 0, len(rs) // the first region behind iova is in here
	for lo < hi {
		if mid := (lo + hi) / 2; rs[mid].iova <= iova {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	p := rs[lo-1].at(iova, n)
	if p != nil {
		l.recent[l.next%uint8(len(l.recent))] = rs[lo-1]
		l.next++
	}
	return p
}
