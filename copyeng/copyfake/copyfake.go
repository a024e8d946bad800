// Package copyfake gives the copy kernels to a software GPU, so that the GPU
// engine of package copyeng runs, and is tested, on machines without one.
package copyfake

import (
	"encoding/binary"
	"fmt"

	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

// Register makes the fake run copyeng's kernels: each as the device's code
// does by its contract, with every address checked by the fake. An access that
// is not aligned as the device's code needs it loses the context with
// MisalignedAddress, as on a GPU, and is one of the fake's violations.
func Register(g *cudafake.GPU) {
	for name, kernel := range Kernels() {
		g.RegisterKernel(name, kernel)
	}
}

// Kernels are what Register registers, by name, for tests that put something
// of their own around them.
func Kernels() map[string]cudafake.KernelFunc {
	return map[string]cudafake.KernelFunc{"copy_inline": copyInline, "copy_list": copyList, "exchange": exchange}
}

func copyInline(l *cudafake.Launch) error {
	s := side{host: l.U64(0), device: l.U64(8), pages: l.U32(496), shift: l.U32(500)}
	return s.copy(l, l.Params[16:496], l.U32(504) != 0)
}

func copyList(l *cudafake.Launch) error {
	s := side{host: l.U64(0), device: l.U64(8), pages: l.U32(24), shift: l.U32(28)}
	list, err := pairs(l, l.U64(16), s.pages)
	if err != nil {
		return err
	}
	return s.copy(l, list, l.U32(32) != 0)
}

func exchange(l *cudafake.Launch) error {
	for i, toDevice := range []bool{true, false} {
		at := 32 * i
		s := side{host: l.U64(at), device: l.U64(at + 8), pages: l.U32(at + 24), shift: l.U32(at + 28)}
		list, err := pairs(l, l.U64(at+16), s.pages)
		if err != nil {
			return err
		}
		if err := s.copy(l, list, toDevice); err != nil {
			return err
		}
	}
	return nil
}

// The kernels read and write pages in words of 16 bytes, and lists in words of
// the size of a page number.
const (
	wordBytes   = 16
	numberBytes = 4
)

// pairs is a list of n pairs of page numbers.
func pairs(l *cudafake.Launch, addr uint64, n uint32) ([]byte, error) {
	return aligned(l, addr, 2*numberBytes*uint64(n), numberBytes)
}

// aligned is memory that is accessed in words.
func aligned(l *cudafake.Launch, addr, n, word uint64) ([]byte, error) {
	if addr%word != 0 {
		return nil, &cudafake.Fault{
			Result: cuda.MisalignedAddress,
			Text:   fmt.Sprintf("kernel %s: an access of %d bytes at %#x, which is no multiple of that", l.Name, word, addr),
		}
	}
	return l.Memory(addr, n)
}

// side is one direction: the spaces, the number of pages and log2 of their size.
type side struct {
	host, device uint64
	pages, shift uint32
}

// copy moves the pages of a list of pairs of 32-bit numbers.
func (s side) copy(l *cudafake.Launch, list []byte, toDevice bool) error {
	size := uint64(1) << s.shift
	for i := range s.pages {
		h, d := binary.LittleEndian.Uint32(list[8*i:]), binary.LittleEndian.Uint32(list[8*i+4:])
		host, err := aligned(l, s.host+uint64(h)<<s.shift, size, wordBytes)
		if err != nil {
			return err
		}
		device, err := aligned(l, s.device+uint64(d)<<s.shift, size, wordBytes)
		if err != nil {
			return err
		}
		if toDevice {
			copy(device, host)
		} else {
			copy(host, device)
		}
	}
	return nil
}
