package pieces

import "encoding/binary"

// piece is an entry of the list, as the kernel reads it.
type piece struct {
	Frame, Buffer uint64
	Bytes         uint32
	_             uint32
}

const pieceBytes = 24

// put writes entry i of the list.
func (m *Mover) put(i int, p Piece, buffer int64) {
	b := m.list.Bytes()[i*pieceBytes:][:pieceBytes]
	binary.LittleEndian.PutUint64(b, p.Frame)
	binary.LittleEndian.PutUint64(b[8:], uint64(buffer))
	binary.LittleEndian.PutUint64(b[16:], uint64(p.Bytes))
}
