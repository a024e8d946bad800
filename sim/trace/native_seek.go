package trace

import (
	"errors"
	"fmt"
	"io"
	"sort"
)

// Native reads a trace in the own format from anything that can be read at an
// offset, starting at any record. It is not safe for concurrent use; several
// Natives may share one io.ReaderAt.
type Native struct {
	r     io.ReaderAt
	path  string
	size  int64
	hdr   Header
	ft    footer
	index []indexItem
	br    blockReader
	block int // of the next block to load
	buf   []byte
	err   error // sticky until SeekRecord
}

// OpenNative reads header, index and footer of a trace of size bytes; path is
// for messages. Closing the Native does not close r. Every error is an *Error.
func OpenNative(r io.ReaderAt, size int64, path string) (*Native, error) {
	n := &Native{r: r, path: path, size: size}
	if err := n.open(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Native) open() error {
	if n.size < headerFixed {
		return n.fault(0, "the file is cut off in its header")
	}
	head := make([]byte, min(n.size, headerFixed+8+3*maxText))
	if err := n.readAt(head, 0); err != nil {
		return err
	}
	hdr, size, f := parseHeader(head)
	switch {
	case f != nil:
		return n.fault(int64(f.at), f.what)
	case size == 0 || n.size < int64(size+indexHeader+footerSize):
		return n.fault(n.size, "the file is cut off in its header")
	}
	n.hdr = hdr
	tail := make([]byte, footerSize)
	if err := n.readAt(tail, n.size-footerSize); err != nil {
		return err
	}
	ft, err := parseFooter(tail)
	if err != nil {
		return n.fault(n.size-footerSize, err.Error())
	}
	indexSize := uint64(n.size) - footerSize - ft.index
	if ft.index < uint64(size) || ft.blocks > maxBlocks || indexSize != uint64(indexHeader)+uint64(ft.blocks)*indexEntry {
		return n.fault(n.size-footerSize, "the footer is wrong about the index: damaged")
	}
	raw := make([]byte, indexSize)
	if err := n.readAt(raw, int64(ft.index)); err != nil {
		return err
	}
	n.ft = ft
	if n.index, _, f = parseIndex(raw); f != nil {
		return n.fault(int64(ft.index), f.what)
	}
	return n.checkIndex(uint64(size))
}

// checkIndex checks that blocks are in order and within the file, so that
// sizes made from the index cannot be absurd.
func (n *Native) checkIndex(from uint64) error {
	var first uint64
	for i, it := range n.index {
		if it.offset < from || it.offset+blockHeader > n.ft.index || i == 0 && it.first != 0 || i > 0 && it.first <= first {
			return n.fault(int64(n.ft.index), fmt.Sprintf("the index is wrong about block %d: damaged", i+1))
		}
		from, first = it.offset+blockHeader, it.first
	}
	if len(n.index) == 0 || n.ft.records <= first {
		return n.fault(int64(n.ft.index), "the file has no records, or the footer is damaged")
	}
	return nil
}

// readAt fills b from an offset.
func (n *Native) readAt(b []byte, at int64) error {
	k, err := n.r.ReadAt(b, at)
	if k == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Path: n.path, Format: "native", Offset: at + int64(k), What: "cannot be read", Err: err}
}

func (n *Native) fault(at int64, what string) error {
	return &Error{Path: n.path, Format: "native", Offset: at, What: what}
}

// Header returns the trace's header.
func (n *Native) Header() Header { return n.hdr }

// Records returns the number of records.
func (n *Native) Records() int64 { return int64(n.ft.records) }

// Info implements Informer.
func (n *Native) Info() Info {
	info := Info{Path: n.path, Format: "native", Records: n.Records()}
	n.hdr.fill(&info)
	return info
}

// SeekRecord makes record, counted from 0, the next one; Records() is the end. It
// loads one block.
func (n *Native) SeekRecord(record int64) error {
	if record < 0 || record > n.Records() {
		return &Error{Path: n.path, Format: "native", Record: record,
			What: fmt.Sprintf("cannot be sought: the trace has %d records", n.ft.records)}
	}
	n.err, n.br.left = nil, 0
	n.block = sort.Search(len(n.index), func(i int) bool { return n.index[i].first > uint64(record) }) - 1
	if record == n.Records() {
		n.block = len(n.index)
		return nil
	}
	skip := int(uint64(record) - n.index[n.block].first)
	if n.err = n.load(); n.err != nil {
		return n.err
	}
	var recs [256]Record
	for skip > 0 {
		k, err := n.Next(recs[:min(skip, len(recs))])
		if err != nil {
			return err
		}
		skip -= k
	}
	return nil
}

// Next implements Reader.
func (n *Native) Next(recs []Record) (int, error) {
	for n.err == nil && len(recs) > 0 {
		if n.br.left > 0 {
			k, what := n.br.next(recs)
			if what == "" {
				return k, nil
			}
			n.err = n.blockFault(n.block-1, what)
			continue
		}
		if n.block == len(n.index) {
			n.err = io.EOF
			continue
		}
		n.err = n.load()
	}
	return 0, n.err
}

// load reads the next block.
func (n *Native) load() error {
	i := n.block
	at, end, records := n.index[i].offset, n.ft.index, n.ft.records
	if i+1 < len(n.index) {
		end, records = n.index[i+1].offset, n.index[i+1].first
	}
	if end-at > blockHeader+maxBlockBytes {
		return n.blockFault(i, "it is too long: damaged")
	}
	n.buf = append(n.buf[:0], make([]byte, end-at)...)
	if err := n.readAt(n.buf, int64(at)); err != nil {
		return err
	}
	bi, ok, f := parseBlock(n.buf)
	switch {
	case f != nil:
		return n.blockFault(i, f.what)
	case !ok || blockHeader+bi.packed != len(n.buf), bi.first != n.index[i].first, bi.first+uint64(bi.records) != records:
		return n.blockFault(i, "it is not what the index says: damaged")
	}
	if what := n.br.open(bi, n.buf[blockHeader:]); what != "" {
		return n.blockFault(i, what)
	}
	n.block++
	return nil
}

func (n *Native) blockFault(i int, what string) error {
	return n.fault(int64(n.index[i].offset), fmt.Sprintf("block %d: %s", i+1, what))
}

// Close implements Reader; it does not close the io.ReaderAt.
func (n *Native) Close() error {
	n.err = n.fault(0, "read after Close")
	n.br = blockReader{}
	return nil
}
