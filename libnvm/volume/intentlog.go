package volume

import (
	"encoding/binary"
)

const (
	logMagic   = 0x474f4c54 // "TLOG"
	logHeader  = 32
	logEntry   = 16
	minLogUnit = 512
)

// intent is a page that is about to be written, and the checksum that it will
// have.
type intent struct {
	page uint64 // of the volume
	sum  uint64
}

// intentsPerUnit is how many intents one log unit holds.
func intentsPerUnit(unit int) int { return (unit - logHeader) / logEntry }

// encodeIntents fills the units at p with intents and returns the bytes used.
// Each unit is valid by itself; seq numbers the units of an epoch.
func encodeIntents(uuid [16]byte, unit int, epoch, seq uint64, intents []intent, p []byte) int {
	le := binary.LittleEndian
	n := 0
	for len(intents) > 0 {
		u := p[n : n+unit]
		clear(u)
		k := min(len(intents), intentsPerUnit(unit))
		le.PutUint32(u, logMagic)
		le.PutUint32(u[4:], uint32(k))
		le.PutUint64(u[8:], epoch)
		le.PutUint64(u[16:], seq)
		for i, e := range intents[:k] {
			le.PutUint64(u[logHeader+i*logEntry:], e.page)
			le.PutUint64(u[logHeader+i*logEntry+8:], e.sum)
		}
		le.PutUint64(u[24:], seeded(uuid, u))
		intents = intents[k:]
		n += unit
		seq++
	}
	return n
}

// decodeIntents reads the units of an epoch from the start of p until the first
// one that is not part of it. Intents for pages outside the volume end it too.
func decodeIntents(uuid [16]byte, unit int, epoch uint64, pages uint64, p []byte) (intents []intent, units uint64) {
	le := binary.LittleEndian
	for ; len(p) >= unit; p = p[unit:] {
		u := p[:unit]
		want := le.Uint64(u[24:])
		le.PutUint64(u[24:], 0)
		k := int(le.Uint32(u[4:]))
		if le.Uint32(u) != logMagic || le.Uint64(u[8:]) != epoch || le.Uint64(u[16:]) != units ||
			want != seeded(uuid, u) || k > intentsPerUnit(unit) {
			return intents, units
		}
		for i := range k {
			e := intent{le.Uint64(u[logHeader+i*logEntry:]), le.Uint64(u[logHeader+i*logEntry+8:])}
			if e.page >= pages {
				return intents, units
			}
			intents = append(intents, e)
		}
		units++
	}
	return intents, units
}
