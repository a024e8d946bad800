package trace

import "bytes"

const sectorSize = 512

// parseMQSim reads a line of an MQSim trace: arrival time in ns, device, first
// sector, number of sectors, type (0 write, 1 read).
func parseMQSim(line []byte, r *Record) (ok bool, what string) {
	var f [6][]byte
	switch splitFields(line, f[:]) {
	case 0:
		return false, ""
	case 5:
	default:
		return false, "a line needs five numbers: time device LBA sectors type"
	}
	var v [5]uint64
	for i, tok := range f[:5] {
		var n int
		if v[i], n, ok = parseDec(tok); !ok || n != len(tok) {
			return false, clip(tok) + " is not a decimal number below 2^64"
		}
	}
	return sectorRecord(v, r)
}

// sectorRecord makes the record of an MQSim line.
func sectorRecord(v [5]uint64, r *Record) (ok bool, what string) {
	const most = 1 << 55 // sectors in 2^64 bytes
	switch {
	case v[1] >= 1<<32:
		return false, "the device number is beyond 2^32"
	case v[2] >= most || v[3] >= most:
		return false, "LBA or length is beyond 2^64 bytes"
	case v[3] == 0:
		return false, "a command of 0 sectors"
	case v[4] > 1:
		return false, "the type must be 0 (write) or 1 (read)"
	}
	*r = Record{Time: v[0], Array: uint32(v[1]), Addr: v[2] * sectorSize, Bytes: v[3] * sectorSize, Flags: RequestStart}
	if v[4] == 0 {
		r.Op = Write
	}
	return true, checkRange(r.Addr, r.Bytes)
}

// probeMQSim accepts five numbers a line with times that do not fall. With tabs
// between them the file may as well be a csv file without a header.
func probeMQSim(h *head) verdict {
	var last uint64
	tabs, some := false, false
	v := h.everyLine(func(line []byte) bool {
		var r Record
		ok, what := parseMQSim(line, &r)
		if what != "" || ok && r.Time < last {
			return false
		}
		if ok {
			last, some = r.Time, true
		}
		tabs = tabs || bytes.IndexByte(line, '\t') >= 0
		return true
	})
	if !some {
		return no
	}
	if v == sure && (tabs || last == 0) {
		return maybe
	}
	return v
}
