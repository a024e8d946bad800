package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// blockRecords is how many records the Writer puts into a block: enough for
// zstd to work on, few enough to seek well.
const blockRecords = 32 << 10

// Writer writes the own format. It is not safe for concurrent use. A file is
// complete only after Close has returned nil.
type Writer struct {
	w       io.Writer
	zw      *zstd.Encoder
	pages   bool // the header promised page-addressed records
	at      uint64
	records uint64
	pending uint64 // records in cols
	block   uint64 // records that make a block
	cols    [columnCount]columnWriter
	addr    uint64
	time    uint64
	blocks  []indexItem
	out     []byte
	err     error // sticky
	closed  bool
}

var errWriterClosed = errors.New("trace: write after Close")

// NewWriter starts a trace on w. Faults of the header or of w come from the
// first Write or from Close. The Writer buffers one block and does not close w.
func NewWriter(w io.Writer, h Header) *Writer {
	t := &Writer{w: w, pages: h.PageAddressed, block: blockRecords}
	for _, text := range []string{h.Source, h.Generator, h.Order} {
		if len(text) >= maxText {
			t.err = fmt.Errorf("trace: a text of %d bytes in the header is longer than the limit of 65,535", len(text))
			return t
		}
	}
	if t.zw, t.err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithWindowSize(maxBlockBytes), zstd.WithEncoderCRC(false)); t.err == nil {
		t.write(h.append(nil))
	}
	return t
}

// write passes bytes on and keeps count.
func (t *Writer) write(b []byte) {
	if t.err != nil {
		return
	}
	if _, err := t.w.Write(b); err != nil {
		t.err = fmt.Errorf("trace: write the trace: %w", err)
		return
	}
	t.at += uint64(len(b))
}

// Write appends records.
func (t *Writer) Write(recs []Record) error {
	if t.closed {
		return errWriterClosed
	}
	for i := range recs {
		if t.err != nil {
			return t.err
		}
		r := &recs[i]
		if what := t.check(r); what != "" {
			t.err = fmt.Errorf("trace: record %d cannot be written: %s", t.records+t.pending+1, what)
			return t.err
		}
		t.put(r)
		if t.pending++; t.pending == t.block {
			t.flush()
		}
	}
	return t.err
}

// check says what is wrong with a record, or "".
func (t *Writer) check(r *Record) string {
	switch {
	case r.Op > Prefetch:
		return fmt.Sprintf("unknown operation %d", r.Op)
	case r.Flags&^knownFlags != 0:
		return fmt.Sprintf("unknown flags %#x", r.Flags)
	case t.pages && r.Flags&PageAddressed == 0:
		return "it is a byte range, but the header says that all records are page-addressed"
	}
	return ""
}

// put encodes one record.
func (t *Writer) put(r *Record) {
	t.cols[colFlags].put(uint64(r.Op) | uint64(r.Flags)<<2)
	t.cols[colAddr].put(zigzag(r.Addr - t.addr))
	t.cols[colBytes].put(r.Bytes)
	t.cols[colTimes].put(zigzag(r.Time - t.time))
	t.cols[colArrays].put(uint64(r.Array))
	t.cols[colGPUs].put(uint64(r.GPU))
	t.addr, t.time = r.Addr, r.Time
}

// flush writes the pending records as a block.
func (t *Writer) flush() {
	if len(t.blocks) == maxBlocks {
		t.err = fmt.Errorf("trace: more than %d records", uint64(maxBlocks)*blockRecords)
		return
	}
	raw := t.out[:0]
	for i := range t.cols {
		t.cols[i].flush()
		raw = binary.AppendUvarint(raw, uint64(len(t.cols[i].b)))
		raw = append(raw, t.cols[i].b...)
		t.cols[i].reset()
	}
	t.out = raw
	payload, flags := t.zw.EncodeAll(raw, nil), uint32(packedZstd)
	if len(payload) >= len(raw) {
		payload, flags = raw, 0
	}
	head := binary.LittleEndian.AppendUint32(nil, blockMark)
	head = binary.LittleEndian.AppendUint32(head, uint32(t.pending-1)|flags<<24)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(payload)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(raw)))
	head = binary.LittleEndian.AppendUint64(head, t.records)
	sum := xxhash.New()
	sum.Write(head) // never fails: xxhash.Digest.Write always returns nil
	sum.Write(payload)
	head = binary.LittleEndian.AppendUint64(head, sum.Sum64())
	t.blocks = append(t.blocks, indexItem{t.at, t.records})
	t.write(head)
	t.write(payload)
	t.records += t.pending
	t.pending, t.addr, t.time = 0, 0, 0
}

// Close writes what is pending, the index and the footer. It does not close the
// underlying writer. A trace without records is an error, as it is for readers.
func (t *Writer) Close() error {
	if t.closed {
		return t.err
	}
	t.closed = true
	if t.pending > 0 && t.err == nil {
		t.flush()
	}
	if t.err == nil && t.records == 0 {
		t.err = errors.New("trace: a trace without records")
	}
	index := binary.LittleEndian.AppendUint32(nil, indexMark)
	index = binary.LittleEndian.AppendUint32(index, uint32(len(t.blocks)))
	index = binary.LittleEndian.AppendUint64(index, 0)
	for _, b := range t.blocks {
		index = binary.LittleEndian.AppendUint64(index, b.offset)
		index = binary.LittleEndian.AppendUint64(index, b.first)
	}
	binary.LittleEndian.PutUint64(index[8:], indexSum(index))
	ft := footer{index: t.at, records: t.records, blocks: uint32(len(t.blocks))}
	t.write(ft.append(index))
	if t.zw != nil {
		if err := t.zw.Close(); err != nil && t.err == nil {
			t.err = fmt.Errorf("trace: close the compressor: %w", err)
		}
	}
	return t.err
}
