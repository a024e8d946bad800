package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// hugePage is contiguous in physical memory, never swapped, and not moved to make room for others, as ordinary locked memory may be.
const hugePage = 2 << 20

const pagesPerHuge = hugePage / libnvm.PageSize

// HugePagesError says that the kernel has too few huge pages in reserve.
type HugePagesError struct {
	Need int   // pages of 2 MiB wanted now
	Free int64 // pages in reserve, -1 when not known
	Err  error
}

func (e *HugePagesError) Error() string {
	return fmt.Sprintf("libnvm/raw: %d huge pages of 2 MiB are needed and %d are free: reserve more with: sysctl vm.nr_hugepages=N", e.Need, e.Free)
}

// Unwrap gives the cause.
func (e *HugePagesError) Unwrap() error { return e.Err }

// FrameError says that the physical address of memory cannot be found out.
type FrameError struct{ Err error }

func (e *FrameError) Error() string {
	return fmt.Sprintf("libnvm/raw: the kernel does not tell physical addresses (%v): run as root, or with CAP_SYS_ADMIN", e.Err)
}

// Unwrap gives the cause.
func (e *FrameError) Unwrap() error { return e.Err }

// source gives memory with known physical addresses.
type source interface {
	// take maps n huge pages, one after the other in the program; addrs are their physical addresses.
	take(n int) (b []byte, addrs []uint64, err error)
	give(b []byte) error
}

// kernelPages is the source of the running machine.
type kernelPages struct{}

func (kernelPages) take(n int) ([]byte, []uint64, error) {
	// Shared, since a forked child would make private pages copy-on-write, and the parent's next write would move it to another page than
	// the drive's.
	b, err := unix.Mmap(-1, 0, n*hugePage, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
	if err != nil {
		return nil, nil, &HugePagesError{n, freeHugePages(), os.NewSyscallError("mmap", err)}
	}
	addrs, err := frames(b)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(b))
	}
	return b, addrs, nil
}

func (kernelPages) give(b []byte) error { return unix.Munmap(b) }

// freeHugePages is how many the kernel has left, -1 when it does not say.
func freeHugePages() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1
	}
	for l := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(l, "HugePages_Free: %d", &n); err == nil {
			return n
		}
	}
	return -1
}

// frames looks up the physical address of each huge page of b.
func frames(b []byte) ([]uint64, error) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, &FrameError{err}
	}
	defer f.Close()
	addrs := make([]uint64, len(b)/hugePage)
	for i := range addrs {
		b[i*hugePage] = 0 // make it present
		var e [8]byte
		if _, err := f.ReadAt(e[:], int64(address(b[i*hugePage:])/libnvm.PageSize*8)); err != nil {
			return nil, &FrameError{err}
		}
		a, err := frame(binary.NativeEndian.Uint64(e[:]))
		if err != nil {
			return nil, err
		}
		addrs[i] = a
	}
	return addrs, nil
}

// frame decodes an entry of pagemap: bit 63 says present, bits 0 to 54 are the frame number, which is zero for those who may not know.
func frame(entry uint64) (uint64, error) {
	const number = 1<<55 - 1
	a := entry & number * libnvm.PageSize
	if entry>>63 == 0 || a == 0 || a%hugePage != 0 {
		return 0, &FrameError{fmt.Errorf("page map entry %#x", entry)}
	}
	return a, nil
}

// pool cuts huge pages into pieces of whole 4 KiB pages.
type pool struct {
	src source

	mu     sync.Mutex // guards the fields below
	huge   []*chunk
	live   map[*libnvm.Memory]struct{} // handed out and not given back, those of several huge pages included
	closed bool
}

// chunk is one huge page; used[i] says whether its i-th 4 KiB page is handed out.
type chunk struct {
	b    []byte
	addr uint64
	used [pagesPerHuge]bool
}

// alloc gives zeroed memory: one piece up to 2 MiB, several huge pages beyond.
func (p *pool) alloc(bytes int) (*libnvm.Memory, error) {
	if bytes <= 0 || bytes > 1<<40 {
		return nil, fmt.Errorf("libnvm/raw: cannot allocate %d bytes", bytes)
	}
	size := (bytes + libnvm.PageSize - 1) &^ (libnvm.PageSize - 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("libnvm/raw: memory is asked for after Close")
	}
	if size > hugePage {
		return p.large(size)
	}
	c, at, err := p.room(size / libnvm.PageSize)
	if err != nil {
		return nil, err
	}
	n := size / libnvm.PageSize
	from := at * libnvm.PageSize
	b := c.b[from : from+size : from+size]
	var m *libnvm.Memory
	m, err = libnvm.NewMemory(b, c.addr+uint64(from), func() error { return p.free(m, c, at, n) })
	if err != nil {
		return nil, err
	}
	// Recycled memory holds old completion entries, whose phase bits would read as new ones.
	clear(b)
	c.set(at, n, true)
	p.add(m)
	return m, nil
}

// room finds n free pages in a row, first fit, and takes another huge page when there are none. The caller holds mu.
func (p *pool) room(n int) (*chunk, int, error) {
	for _, c := range p.huge {
		if at := c.find(n); at >= 0 {
			return c, at, nil
		}
	}
	b, addrs, err := p.src.take(1)
	if err != nil {
		return nil, 0, err
	}
	c := &chunk{b: b, addr: addrs[0]}
	p.huge = append(p.huge, c)
	return c, 0, nil
}

func (c *chunk) find(n int) int {
	run := 0
	for i, u := range c.used {
		if run++; u {
			run = 0
		}
		if run == n {
			return i + 1 - n
		}
	}
	return -1
}

func (c *chunk) set(at, n int, used bool) {
	for i := range n {
		c.used[at+i] = used
	}
}

// add takes note of memory that is handed out. The caller holds mu.
func (p *pool) add(m *libnvm.Memory) {
	if p.live == nil {
		p.live = map[*libnvm.Memory]struct{}{}
	}
	p.live[m] = struct{}{}
}

func (p *pool) free(m *libnvm.Memory, c *chunk, at, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.set(at, n, false)
	delete(p.live, m)
	if p.closed && len(p.live) == 0 {
		return p.giveAll()
	}
	return nil
}

// large takes huge pages of its own. The caller holds mu.
func (p *pool) large(size int) (*libnvm.Memory, error) {
	b, addrs, err := p.src.take((size + hugePage - 1) / hugePage)
	if err != nil {
		return nil, err
	}
	var m *libnvm.Memory
	m, err = libnvm.NewChunkedMemory(b[:size:size], hugePage, addrs, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.live, m)
		err := p.src.give(b)
		if p.closed && len(p.live) == 0 {
			err = errors.Join(err, p.giveAll())
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.src.give(b))
	}
	p.add(m)
	return m, nil
}

// detach tells all memory that the drive cannot reach it any more.
func (p *pool) detach() error {
	p.mu.Lock()
	left := slices.Collect(maps.Keys(p.live))
	p.mu.Unlock() // Detach may free the memory, which takes the lock
	var errs []error
	for _, m := range left {
		errs = append(errs, m.Detach())
	}
	return errors.Join(errs...)
}

// close gives the huge pages back. While pieces are in use it keeps them all: leaked memory is better than memory that belongs to two. The
// last piece to be freed then takes them with it.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if n := len(p.live); n > 0 {
		return fmt.Errorf("libnvm/raw: %d pieces of memory were not freed; free them to give the huge pages back", n)
	}
	return p.giveAll()
}

// giveAll gives the huge pages that pieces are cut from back. The caller holds mu.
func (p *pool) giveAll() error {
	var errs []error
	for _, c := range p.huge {
		errs = append(errs, p.src.give(c.b))
	}
	p.huge = nil
	return errors.Join(errs...)
}
