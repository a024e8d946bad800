package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// The own format; FORMAT.md describes every byte.
const (
	nativeVersion  = 1
	nativeMagic    = "\x89TTRC\r\n\x1a"
	nativeEndMagic = "TTRCend\n"

	headerFixed = 36 // up to the texts
	blockHeader = 32
	blockMark   = 0x314b4c42 // "BLK1"
	indexMark   = 0x31584449 // "IDX1"
	indexHeader = 16
	indexEntry  = 16
	footerSize  = 40

	maxText         = 64 << 10 // bytes of a text in the header
	maxBlockRecords = 1 << 16
	maxBlockBytes   = 8 << 20 // of a block's columns, before compression
	maxBlocks       = 1 << 21 // keeps the index within maxWindow

	packedZstd = 1 // block flag: the columns are one zstd frame
)

// Flags of a header.
const (
	hdrPageAddressed = 1 << iota
	hdrWrites
	hdrTimes
	hdrRequests
	hdrPrompts
	hdrKnown = 1<<iota - 1
)

// Header describes a trace in the own format, for people and for Info. Nothing
// but PageAddressed is checked against the records.
type Header struct {
	PageSize  uint64 // bytes of a page that page numbers count; 0 when unknown
	Source    string // where the records come from
	Generator string // program, parameters and seed that made them
	Order     string // of a session trace: Merged, Concatenated or empty

	PageAddressed bool // every record is page-addressed
	Writes        bool // as in Info
	Times         bool
	Requests      bool
	Prompts       bool
}

// flags packs the header's booleans.
func (h *Header) flags() (f uint32) {
	for i, set := range []bool{h.PageAddressed, h.Writes, h.Times, h.Requests, h.Prompts} {
		if set {
			f |= 1 << i
		}
	}
	return f
}

// append encodes the header.
func (h *Header) append(b []byte) []byte {
	texts := []string{h.Source, h.Generator, h.Order}
	size := headerFixed + 8
	for _, t := range texts {
		size += len(t)
	}
	b = append(b, nativeMagic...)
	b = binary.LittleEndian.AppendUint32(b, nativeVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint64(b, h.PageSize)
	b = binary.LittleEndian.AppendUint32(b, h.flags())
	b = binary.LittleEndian.AppendUint16(b, 0)
	for _, t := range texts {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(t)))
	}
	for _, t := range texts {
		b = append(b, t...)
	}
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
}

// parseHeader decodes a header at the front of b and returns its size; size 0
// without an error means that b is too short.
func parseHeader(b []byte) (h Header, size int, err *fault) {
	if len(b) < headerFixed {
		return h, 0, nil
	}
	if string(b[:8]) != nativeMagic {
		return h, 0, &fault{what: "not a .ttrc file: its magic number is wrong"}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != nativeVersion {
		return h, 0, &fault{at: 8, what: fmt.Sprintf("version %d of the format; this program reads version %d", v, nativeVersion)}
	}
	size = int(binary.LittleEndian.Uint32(b[12:]))
	lens := [3]int{}
	want := headerFixed + 8
	for i := range lens {
		lens[i] = int(binary.LittleEndian.Uint16(b[30+2*i:]))
		want += lens[i]
	}
	if size != want {
		return h, 0, &fault{at: 12, what: "the header's size does not add up: damaged"}
	}
	if len(b) < size {
		return h, 0, nil
	}
	if xxhash.Sum64(b[:size-8]) != binary.LittleEndian.Uint64(b[size-8:]) {
		return h, 0, &fault{what: "the header's checksum is wrong: damaged"}
	}
	flags := binary.LittleEndian.Uint32(b[24:])
	if reserved := binary.LittleEndian.Uint16(b[28:]); flags&^hdrKnown != 0 || reserved != 0 {
		return h, 0, &fault{at: 24, what: fmt.Sprintf("the header has unknown flags %#x, %#x", flags, reserved)}
	}
	h = Header{PageSize: binary.LittleEndian.Uint64(b[16:]), PageAddressed: flags&hdrPageAddressed != 0,
		Writes: flags&hdrWrites != 0, Times: flags&hdrTimes != 0,
		Requests: flags&hdrRequests != 0, Prompts: flags&hdrPrompts != 0}
	text := b[headerFixed:]
	for i, s := range []*string{&h.Source, &h.Generator, &h.Order} {
		*s = string(text[:lens[i]])
		text = text[lens[i]:]
	}
	return h, size, nil
}

// fill copies the header into info.
func (h *Header) fill(info *Info) {
	info.PageSize, info.Source, info.Order = h.PageSize, h.Source, h.Order
	if h.Generator != "" && info.Source == "" {
		info.Source = h.Generator
	}
	info.PageAddressed, info.Writes, info.Times = h.PageAddressed, h.Writes, h.Times
	info.Requests, info.Prompts = h.Requests, h.Prompts
}

// blockReader gives out the records of one block.
type blockReader struct {
	zd      *zstd.Decoder
	columns []byte // decompressed, reused
	cur     [columnCount]cursor
	state   columnState
	left    int // records not yet given out
}

// blockInfo is what a block's header says.
type blockInfo struct {
	records int
	flags   uint32
	packed  int    // bytes of the payload as stored
	raw     int    // bytes of the columns
	first   uint64 // number of its first record, from 0
}

// parseBlock checks a block's header and checksum at the front of b; ok is
// false without a fault when b is too short.
func parseBlock(b []byte) (bi blockInfo, ok bool, err *fault) {
	if len(b) < blockHeader {
		return bi, false, nil
	}
	le := binary.LittleEndian
	flagsCount := le.Uint32(b[4:])
	bi = blockInfo{records: int(flagsCount&(1<<24-1)) + 1, flags: flagsCount >> 24,
		packed: int(le.Uint32(b[8:])), raw: int(le.Uint32(b[12:])), first: le.Uint64(b[16:])}
	switch {
	case le.Uint32(b) != blockMark, bi.records > maxBlockRecords, bi.raw > maxBlockBytes, bi.packed > bi.raw,
		bi.flags > packedZstd, bi.flags == 0 && bi.packed != bi.raw:
		return bi, false, &fault{what: "a block's header is damaged"}
	case len(b) < blockHeader+bi.packed:
		return bi, false, nil
	}
	h := xxhash.New()
	h.Write(b[:24]) // never fails: xxhash.Digest.Write always returns nil
	h.Write(b[blockHeader : blockHeader+bi.packed])
	if h.Sum64() != le.Uint64(b[24:]) {
		return bi, false, &fault{what: "a block's checksum is wrong: damaged"}
	}
	return bi, true, nil
}

// open prepares the records of a checked block with this payload.
func (br *blockReader) open(bi blockInfo, payload []byte) (what string) {
	br.left = 0
	if bi.flags&packedZstd == 0 {
		br.columns = append(br.columns[:0], payload...)
	} else {
		if br.zd == nil {
			zd, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlockBytes))
			if err != nil {
				return "no zstd decoder: " + err.Error()
			}
			br.zd = zd
		}
		var err error
		if br.columns, err = br.zd.DecodeAll(payload, br.columns[:0]); err != nil {
			return "its columns cannot be decompressed: " + err.Error()
		}
	}
	if len(br.columns) != bi.raw {
		return fmt.Sprintf("its columns are %d bytes, not %d", len(br.columns), bi.raw)
	}
	rest := br.columns
	for i := range br.cur {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > uint64(len(rest)-k) {
			return "a column is cut off"
		}
		br.cur[i] = cursor{b: rest[k : k+int(n)]}
		rest = rest[k+int(n):]
	}
	if len(rest) != 0 {
		return "bytes after the last column"
	}
	br.state, br.left = columnState{}, bi.records
	return ""
}

// next fills recs with records of the block.
func (br *blockReader) next(recs []Record) (n int, what string) {
	recs = recs[:min(len(recs), br.left)]
	if !br.state.decode(&br.cur, recs) {
		return 0, "a column is damaged"
	}
	if br.left -= len(recs); br.left == 0 {
		for i := range br.cur {
			if c := &br.cur[i]; len(c.b) != 0 || c.repeat != 0 {
				return 0, "a column has more values than the block has records"
			}
		}
	}
	return len(recs), ""
}

// nativeDecoder reads the format as a stream and checks index and footer.
type nativeDecoder struct {
	br     blockReader
	header bool
	at     int64  // offset of the window in the file
	made   uint64 // records in the blocks so far
	blocks []indexItem
	index  bool // the index was read
	footer bool
}

// indexItem is a block in the index.
type indexItem struct {
	offset, first uint64
}

// decode implements decoder.
func (d *nativeDecoder) decode(buf []byte, last bool, recs []Record) (n, used int, err error) {
	for n < len(recs) {
		if d.br.left > 0 {
			k, what := d.br.next(recs[n:])
			if what != "" {
				return n, used, d.block(used, what)
			}
			n += k
			continue
		}
		size, f := d.element(buf[used:])
		if f != nil {
			f.at += used
			return n, used, f
		}
		if size == 0 {
			break
		}
		used += size
		d.at += int64(size)
	}
	return n, used, nil
}

// block is a fault in the block that was read last; d.at is used bytes into the
// window.
func (d *nativeDecoder) block(used int, what string) *fault {
	start := int64(d.blocks[len(d.blocks)-1].offset)
	return &fault{at: int(start-d.at) + used, what: fmt.Sprintf("block %d: %s", len(d.blocks), what)}
}

// cut implements cutter.
func (d *nativeDecoder) cut() string {
	switch {
	case !d.header:
		return "the file is cut off in its header"
	case d.index:
		return "the file is cut off in its footer"
	}
	return fmt.Sprintf("the file is cut off in or after block %d, record %d", len(d.blocks)+1, d.made)
}

// element reads a header, block, index or footer; size 0 asks for more bytes.
func (d *nativeDecoder) element(b []byte) (size int, f *fault) {
	switch {
	case !d.header:
		_, size, f = parseHeader(b)
		d.header = size > 0
		return size, f
	case d.footer:
		if len(b) > 0 {
			return 0, &fault{what: "bytes after the end of the trace"}
		}
		return 0, nil
	case d.index:
		return d.readFooter(b)
	case len(b) < 4:
		return 0, nil
	case binary.LittleEndian.Uint32(b) == indexMark:
		return d.readIndex(b)
	case binary.LittleEndian.Uint32(b) != blockMark:
		return 0, &fault{what: fmt.Sprintf("neither block %d nor an index is here: damaged", len(d.blocks)+1)}
	}
	bi, ok, f := parseBlock(b)
	if f != nil || !ok {
		if f != nil {
			f.what = fmt.Sprintf("block %d: %s", len(d.blocks)+1, f.what)
		}
		return 0, f
	}
	if bi.first != d.made || len(d.blocks) == maxBlocks {
		return 0, &fault{what: fmt.Sprintf("block %d starts at record %d, not %d: a block is missing or repeated",
			len(d.blocks)+1, bi.first, d.made)}
	}
	d.blocks = append(d.blocks, indexItem{uint64(d.at), bi.first})
	d.made += uint64(bi.records)
	size = blockHeader + bi.packed
	if what := d.br.open(bi, b[blockHeader:size]); what != "" {
		return 0, d.block(0, what)
	}
	return size, nil
}

// readIndex checks the index against the blocks that were read.
func (d *nativeDecoder) readIndex(b []byte) (size int, f *fault) {
	items, size, f := parseIndex(b)
	if f != nil || size == 0 {
		return 0, f
	}
	if len(items) != len(d.blocks) {
		return 0, &fault{what: fmt.Sprintf("the index has %d blocks, but there are %d", len(items), len(d.blocks))}
	}
	for i, it := range items {
		if it != d.blocks[i] {
			return 0, &fault{what: fmt.Sprintf("the index is wrong about block %d", i+1)}
		}
	}
	d.index = true
	return size, nil
}

// parseIndex decodes an index at the front of b.
func parseIndex(b []byte) (items []indexItem, size int, f *fault) {
	if len(b) < indexHeader {
		return nil, 0, nil
	}
	n := int(binary.LittleEndian.Uint32(b[4:]))
	if binary.LittleEndian.Uint32(b) != indexMark || n > maxBlocks {
		return nil, 0, &fault{what: "the index is damaged"}
	}
	size = indexHeader + n*indexEntry
	if len(b) < size {
		return nil, 0, nil
	}
	if indexSum(b[:size]) != binary.LittleEndian.Uint64(b[8:]) {
		return nil, 0, &fault{what: "the index's checksum is wrong: damaged"}
	}
	items = make([]indexItem, n)
	for i := range items {
		e := b[indexHeader+i*indexEntry:]
		items[i] = indexItem{binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8:])}
	}
	return items, size, nil
}

// indexSum is the checksum of an index: all of it but the checksum's field.
func indexSum(b []byte) uint64 {
	h := xxhash.New()
	h.Write(b[:8])
	h.Write(b[indexHeader:])
	return h.Sum64()
}

// footer is the fixed end of a file.
type footer struct {
	index, records uint64
	blocks         uint32
}

// append encodes the footer.
func (ft footer) append(b []byte) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, ft.index)
	b = binary.LittleEndian.AppendUint64(b, ft.records)
	b = binary.LittleEndian.AppendUint32(b, ft.blocks)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[from:]))
	return append(b, nativeEndMagic...)
}

// parseFooter decodes a footer, which is all of b.
func parseFooter(b []byte) (ft footer, err error) {
	if !bytes.HasSuffix(b, []byte(nativeEndMagic)) {
		return ft, errors.New("the file is cut off: it does not end with a footer")
	}
	if xxhash.Sum64(b[:24]) != binary.LittleEndian.Uint64(b[24:]) || binary.LittleEndian.Uint32(b[20:]) != 0 {
		return ft, errors.New("the footer is damaged")
	}
	return footer{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}, nil
}

func (d *nativeDecoder) readFooter(b []byte) (size int, f *fault) {
	if len(b) < footerSize {
		return 0, nil
	}
	ft, err := parseFooter(b[:footerSize])
	if err != nil {
		return 0, &fault{what: err.Error()}
	}
	indexAt := uint64(d.at) - uint64(indexHeader+len(d.blocks)*indexEntry)
	if ft.records != d.made || int(ft.blocks) != len(d.blocks) || ft.index != indexAt {
		return 0, &fault{what: fmt.Sprintf("the footer counts %d records in %d blocks, but there are %d in %d",
			ft.records, ft.blocks, d.made, len(d.blocks))}
	}
	d.footer = true
	return footerSize, nil
}

// finish implements finisher.
func (d *nativeDecoder) finish() error {
	if !d.footer {
		return &fault{what: fmt.Sprintf("the file is cut off after block %d, record %d: it has no footer", len(d.blocks), d.made)}
	}
	return nil
}

func openNative(in *input, info Info, h *head, _ *Options) (Reader, *Error) {
	hdr, size, f := parseHeader(h.buf)
	if f == nil && size == 0 && h.complete {
		f = &fault{what: "the file is cut off in its header"}
	}
	if f != nil {
		return nil, &Error{Path: in.path, Format: info.Format, Offset: int64(f.at), Packed: in.compression != "", What: f.what}
	}
	hdr.fill(&info)
	return &windowReader{in: in, dec: &nativeDecoder{}, info: info}, nil
}

func probeNative(h *head) verdict {
	if bytes.HasPrefix(h.buf, []byte(nativeMagic)) {
		return sure
	}
	return no
}
