// Package copyfake gives the copy kernels to a software GPU, so that the GPU
// engine of package copyeng runs, and is tested, on machines without one.
package copyfake

import (
	"encoding/binary"

	"github.com/tritier/tritier/cuda/cudafake"
)

// Register makes the fake run copyeng's kernels: each as the device's code
// does by its contract, with every address checked by the fake.
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
	list, err := l.Memory(l.U64(16), 8*uint64(s.pages))
	if err != nil {
		return err
	}
	return s.copy(l, list, l.U32(32) != 0)
}

func exchange(l *cudafake.Launch) error {
	for i, toDevice := range []bool{true, false} {
		at := 32 * i
		s := side{host: l.U64(at), device: l.U64(at + 8), pages: l.U32(at + 24), shift: l.U32(at + 28)}
		list, err := l.Memory(l.U64(at+16), 8*uint64(s.pages))
		if err != nil {
			return err
		}
		if err := s.copy(l, list, toDevice); err != nil {
			return err
		}
	}
	return nil
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
		host, err := l.Memory(s.host+uint64(h)<<s.shift, size)
		if err != nil {
			return err
		}
		device, err := l.Memory(s.device+uint64(d)<<s.shift, size)
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
