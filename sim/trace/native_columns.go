package trace

import "encoding/binary"

// The columns of a block, in file order.
const (
	colFlags    = iota // op in the low 2 bits, flags above
	colAddr            // zigzag difference to the address before
	colBytes           // value
	colTimes           // zigzag difference to the time before
	colArrays          // value
	colGPUs            // value
	columnCount        // number of columns
)

// A column is a sequence of tokens. A token is a uvarint t:
//
//	t even        the value t/2
//	t odd, t > 1  the value before, (t-1)/2 more times
//	t = 1         a value of 2^63 or more, in the next 8 bytes, little-endian
const bigValue = 1

// columnWriter encodes one column.
type columnWriter struct {
	b      []byte
	value  uint64
	repeat uint64
	any    bool
}

func (w *columnWriter) put(v uint64) {
	if w.any && v == w.value {
		w.repeat++
		return
	}
	w.flush()
	w.value, w.any = v, true
	if v < 1<<63 {
		w.b = binary.AppendUvarint(w.b, v<<1)
		return
	}
	w.b = binary.LittleEndian.AppendUint64(append(w.b, bigValue), v)
}

// flush writes the repetitions that are due.
func (w *columnWriter) flush() {
	if w.repeat > 0 {
		w.b = binary.AppendUvarint(w.b, w.repeat<<1|1)
		w.repeat = 0
	}
}

func (w *columnWriter) reset() { *w = columnWriter{b: w.b[:0]} }

func zigzag(d uint64) uint64   { return d<<1 ^ uint64(int64(d)>>63) }
func unzigzag(z uint64) uint64 { return z>>1 ^ -(z & 1) }

// cursor decodes one column.
type cursor struct {
	b      []byte
	value  uint64
	repeat uint64
}

// run returns the next value and how many records it holds for, at least 1 and
// at most limit; 0 means that the column is damaged or ends.
func (c *cursor) run(limit int) (value uint64, n int) {
	if c.repeat > 0 {
		n = int(min(c.repeat, uint64(limit)))
		c.repeat -= uint64(n)
		return c.value, n
	}
	var t uint64
	if len(c.b) > 0 && c.b[0] < 0x80 { // most tokens
		t, c.b = uint64(c.b[0]), c.b[1:]
	} else {
		var k int
		if t, k = binary.Uvarint(c.b); k <= 0 {
			return 0, 0
		}
		c.b = c.b[k:]
	}
	switch {
	case t&1 == 0:
		c.value = t >> 1
		return c.value, 1
	case t == bigValue:
		if len(c.b) < 8 {
			return 0, 0
		}
		c.value = binary.LittleEndian.Uint64(c.b)
		c.b = c.b[8:]
		return c.value, 1
	}
	c.repeat = t >> 1
	return c.run(limit)
}

// columnState is what differences refer to.
type columnState struct {
	addr, time uint64
}

// decode fills recs, a column at a time: each loop is short and touches one
// field, and recs stays in the cache. It reports false for damaged columns.
func (s *columnState) decode(cur *[columnCount]cursor, recs []Record) bool {
	ok := eachRun(&cur[colFlags], recs, func(r []Record, v uint64) bool {
		op, flags := Op(v&3), v>>2
		if op > Prefetch || flags&^uint64(knownFlags) != 0 {
			return false
		}
		for i := range r {
			r[i].Op, r[i].Flags = op, uint8(flags)
		}
		return true
	})
	ok = ok && s.addresses(&cur[colAddr], recs)
	ok = ok && eachRun(&cur[colBytes], recs, func(r []Record, v uint64) bool {
		for i := range r {
			r[i].Bytes = v
		}
		return true
	})
	ok = ok && eachRun(&cur[colTimes], recs, func(r []Record, v uint64) bool {
		d := unzigzag(v)
		for i := range r {
			s.time += d
			r[i].Time = s.time
		}
		return true
	})
	ok = ok && eachRun(&cur[colArrays], recs, func(r []Record, v uint64) bool {
		for i := range r {
			r[i].Array = uint32(v)
		}
		return v < 1<<32
	})
	return ok && eachRun(&cur[colGPUs], recs, func(r []Record, v uint64) bool {
		for i := range r {
			r[i].GPU = uint16(v)
		}
		return v < 1<<16
	})
}

// addresses decodes the column that repeats least, without a call for each value.
func (s *columnState) addresses(c *cursor, recs []Record) bool {
	addr := s.addr
	for i := 0; i < len(recs); {
		v, n := c.run(len(recs) - i)
		if n == 0 {
			return false
		}
		d := unzigzag(v)
		for end := i + n; i < end; i++ {
			addr += d
			recs[i].Addr = addr
		}
	}
	s.addr = addr
	return true
}

// eachRun applies set to each run of equal values of a column.
func eachRun(c *cursor, recs []Record, set func(r []Record, v uint64) bool) bool {
	for len(recs) > 0 {
		v, n := c.run(len(recs))
		if n == 0 || !set(recs[:n], v) {
			return false
		}
		recs = recs[n:]
	}
	return true
}
