package trace

import (
	"encoding/binary"
	"fmt"
)

// The record layouts of VMware vscsi traces, as libCacheSim reads them; all
// fields little-endian. The version is the high byte of ver.
//
//	version 1, 32 bytes: sn u32, length u32, nSG u32, command u16, ver u16, block u64, time u64
//	version 2, 40 bytes: command u16, ver u16, sn u32, length u32, nSG u32, block u64, time u64, latency u64
//
// length is in bytes, block in sectors of 512 bytes, time in microseconds.
type vscsiLayout struct {
	version                             uint8
	size, command, ver, length, lbn, ts int
}

var (
	vscsi1 = vscsiLayout{version: 1, size: 32, command: 12, ver: 14, length: 4, lbn: 16, ts: 24}
	vscsi2 = vscsiLayout{version: 2, size: 40, command: 0, ver: 2, length: 8, lbn: 16, ts: 24}
)

// vscsiDecoder reads one of the two layouts.
type vscsiDecoder struct{ vscsiLayout }

// decode implements decoder.
func (d vscsiDecoder) decode(buf []byte, _ bool, recs []Record) (n, used int, err error) {
	for n < len(recs) && len(buf)-used >= d.size {
		if what := d.record(buf[used:used+d.size], &recs[n]); what != "" {
			return n, used, &fault{at: used, what: what}
		}
		n++
		used += d.size
	}
	return n, used, nil
}

// record reads one record. Commands that neither read nor write count as reads,
// as in libCacheSim, which counts every record.
func (d *vscsiLayout) record(b []byte, r *Record) (what string) {
	if v := b[d.ver+1]; v != d.version {
		return fmt.Sprintf("a record has version %d in a vscsi trace of version %d: damaged", v, d.version)
	}
	lbn := binary.LittleEndian.Uint64(b[d.lbn:])
	us := binary.LittleEndian.Uint64(b[d.ts:])
	if lbn >= 1<<55 {
		return fmt.Sprintf("block %d is beyond 2^64 bytes", lbn)
	}
	if us > (1<<64-1)/1000 {
		return fmt.Sprintf("time %d us is beyond 2^64 ns", us)
	}
	*r = Record{Addr: lbn * sectorSize, Bytes: uint64(binary.LittleEndian.Uint32(b[d.length:])),
		Time: us * 1000, Flags: RequestStart}
	switch binary.LittleEndian.Uint16(b[d.command:]) {
	case 0x0a, 0x2a, 0x8a, 0xaa, // WRITE(6), (10), (16), (12)
		0x2e, 0x8e, 0xae, // WRITE AND VERIFY (10), (16), (12)
		0x41, 0x93: // WRITE SAME (10), (16)
		r.Op = Write
	}
	return checkRange(r.Addr, r.Bytes)
}

// plausible accepts a head whose records all have the version and times that do
// not go back by more than a second: completions may be slightly out of order.
func (d *vscsiLayout) plausible(h *head) bool {
	n := len(h.buf) / d.size
	var last uint64
	for i := range n {
		var r Record
		if d.record(h.buf[i*d.size:(i+1)*d.size], &r) != "" || r.Time+1e9 < last {
			return false
		}
		last = max(last, r.Time)
	}
	return n >= 2 || n == 1 && h.size == int64(d.size)
}

// probeVSCSI accepts either version.
func probeVSCSI(h *head) verdict {
	if vscsi1.plausible(h) || vscsi2.plausible(h) {
		return sure
	}
	return no
}

func openVSCSI(in *input, info Info, h *head, _ *Options) (Reader, *Error) {
	layout := vscsi2
	switch {
	case vscsi2.plausible(h):
	case vscsi1.plausible(h):
		layout = vscsi1
	case len(h.buf) >= vscsi1.size && h.buf[vscsi1.ver+1] == 1:
		layout = vscsi1
	}
	return &windowReader{in: in, dec: vscsiDecoder{layout}, info: info}, nil
}
