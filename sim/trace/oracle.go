package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// oracleSize is the size of a libCacheSim oracleGeneral record: u32 time in
// seconds, u64 object, u32 size, i64 index of the next access to the object
// (-1 or 2^63-1: none), little-endian, packed.
const oracleSize = 24

// oracleDecoder reads oracleGeneral. The next-access field is used only to tell
// the format: the simulator finds next accesses itself.
type oracleDecoder struct{}

// openOracle knows the number of records from the size of the input.
func openOracle(in *input, info Info, h *head, o *Options) (Reader, *Error) {
	info.Records = max(h.size, 0) / oracleSize
	return simple(func() decoder { return oracleDecoder{} })(in, info, h, o)
}

// decode implements decoder.
func (oracleDecoder) decode(buf []byte, _ bool, recs []Record) (n, used int, err error) {
	n = min(len(buf)/oracleSize, len(recs))
	for i := range recs[:n] {
		b := (*[oracleSize]byte)(buf[i*oracleSize:])
		next := int64(binary.LittleEndian.Uint64(b[16:]))
		if next <= 0 && next != -1 {
			return i, i * oracleSize, &fault{at: i * oracleSize,
				what: fmt.Sprintf("the next access of a record is %d: damaged, or not oracleGeneral", next)}
		}
		r := &recs[i]
		r.Addr = binary.LittleEndian.Uint64(b[4:])
		r.Bytes = uint64(binary.LittleEndian.Uint32(b[12:]))
		r.Time = uint64(binary.LittleEndian.Uint32(b[0:])) * 1e9
		r.Array, r.GPU, r.Op, r.Flags = 0, 0, Read, PageAddressed
	}
	return n, n * oracleSize, nil
}

// oracleProbe is how many records detection looks at.
const oracleProbe = 4096

// oracleRec is one record in detection.
type oracleRec struct {
	time uint32
	id   uint64
	next int64
}

// probeOracle accepts content that is consistent with itself as oracleGeneral.
// Times must not fall and next accesses must lie ahead. If an object recurs in
// the head, the link from one access to the next proves the format; otherwise
// each plausible next field adds evidence, and eight of them in a file of the
// right size decide. A file named *.oracleGeneral* needs less.
func probeOracle(h *head) verdict {
	n := min(len(h.buf)/oracleSize, oracleProbe)
	if n == 0 {
		return no
	}
	recs := make([]oracleRec, n)
	for i := range recs {
		b := h.buf[i*oracleSize:]
		recs[i] = oracleRec{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]),
			int64(binary.LittleEndian.Uint64(b[16:]))}
	}
	if !oraclePlausible(recs) {
		return no
	}
	whole := h.size < 0 && !h.complete || h.size%oracleSize == 0
	named := strings.Contains(strings.ToLower(h.name), "oraclegeneral")
	links, ok := oracleLinks(recs)
	switch {
	case !ok:
		return no
	case links >= 2, named, whole && (links > 0 || n >= 8):
		return sure
	case whole:
		return maybe
	}
	return no
}

// oraclePlausible checks each record alone and the order of times.
func oraclePlausible(recs []oracleRec) bool {
	var last uint32
	for i, r := range recs {
		never := r.next == -1 || r.next == math.MaxInt64
		if r.time < last || !never && (r.next <= int64(i) || r.next > 1<<48) {
			return false
		}
		last = r.time
	}
	return true
}

// oracleLinks counts the next-access fields that lead to an access of the same
// object within recs; ok is false when one leads elsewhere, or an object recurs
// unannounced. Indexes count from 0 or from 1.
func oracleLinks(recs []oracleRec) (links int, ok bool) {
	for _, base := range []int64{0, 1} {
		if links, ok = oracleLinksFrom(recs, base); ok {
			return links, true
		}
	}
	return 0, false
}

func oracleLinksFrom(recs []oracleRec, base int64) (links int, ok bool) {
	prev := make(map[uint64]int, len(recs))
	for i, r := range recs {
		p, seen := prev[r.id]
		if seen {
			if recs[p].next-base != int64(i) {
				return 0, false
			}
			links++
		}
		prev[r.id] = i
		if j := r.next - base; r.next > 0 && j < int64(len(recs)) && (j < 0 || recs[j].id != r.id) {
			return 0, false
		}
	}
	return links, true
}
