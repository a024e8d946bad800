package guest

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// arenaAt is where the program finds the arena; a static program has nothing there.
const arenaAt = 0x1000_0000_0000

// arena is memory that this process, the program and the drive share. Pieces are taken in order and never given back.
type arena struct {
	file *os.File
	b    []byte
	used int
}

func newArena(t *testing.T, size int) *arena {
	t.Helper()
	fd, err := unix.MemfdCreate("arena", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	a := &arena{file: os.NewFile(uintptr(fd), "arena")}
	if err := a.file.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	if a.b, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *arena) close(t *testing.T) {
	if err := unix.Munmap(a.b); err != nil {
		t.Error(err)
	}
	if err := a.file.Close(); err != nil {
		t.Error(err)
	}
}

// take reserves n bytes on pages of their own and gives their offset.
func (a *arena) take(t *testing.T, n int) int {
	t.Helper()
	at := a.used
	a.used += (n + libnvm.PageSize - 1) &^ (libnvm.PageSize - 1)
	if a.used > len(a.b) {
		t.Fatalf("the arena of %d bytes is too small", len(a.b))
	}
	return at
}

// address is where the program finds the byte at an offset.
func address(off int) uint64 { return arenaAt + uint64(off) }

// records is n structs at an offset, which is a multiple of their alignment.
func records[T any](a *arena, off, n int) []T {
	var one T
	_ = a.b[off : off+n*int(unsafe.Sizeof(one))]
	return unsafe.Slice((*T)(unsafe.Pointer(&a.b[off])), n)
}

func sizeOf[T any]() int {
	var one T
	return int(unsafe.Sizeof(one))
}

// store writes a word that the program reads at the same time.
func (a *arena) store(off int, v uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&a.b[off])), v) }
