package pieces

import "encoding/binary"

// put writes entry i of the list, as the kernel reads it: place in the frames, place
// in the buffer, bytes.
func (m *Mover) put(i int, p Piece, buffer int64) {
	b := m.list.Bytes()[i*pieceBytes:][:pieceBytes]
	binary.LittleEndian.PutUint64(b, p.Frame)
	binary.LittleEndian.PutUint64(b[8:], uint64(buffer))
	binary.LittleEndian.PutUint64(b[16:], uint64(p.Bytes))
}
