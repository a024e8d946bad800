// Package piecesfake gives the kernel of package pieces to a software GPU.
package piecesfake

import (
	"encoding/binary"

	"github.com/tritier/tritier/cuda/cudafake"
)

// Register makes the fake run the kernel, with every address checked.
func Register(g *cudafake.GPU) { g.RegisterKernel("move_pieces", move) }

func move(l *cudafake.Launch) error {
	frames, buffer, at, n, load := l.U64(0), l.U64(8), l.U64(16), l.U32(24), l.U32(28)
	list, err := l.Memory(at, uint64(n)*24)
	if err != nil {
		return err
	}
	for i := range n {
		e := list[24*i:]
		bytes := uint64(binary.LittleEndian.Uint32(e[16:]))
		f, err := l.Memory(frames+binary.LittleEndian.Uint64(e), bytes)
		if err != nil {
			return err
		}
		b, err := l.Memory(buffer+binary.LittleEndian.Uint64(e[8:]), bytes)
		if err != nil {
			return err
		}
		if load != 0 {
			copy(b, f)
		} else {
			copy(f, b)
		}
	}
	return nil
}
