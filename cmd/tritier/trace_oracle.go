package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/trace"
)

// oracleEncoder writes libCacheSim's oracleGeneral: 24-byte little-endian
// records of u32 time in seconds, u64 object, u32 size, i64 index of the next
// access to the object, -1 for none. Operations are lost.
type oracleEncoder struct {
	w     io.Writer
	size  uint32
	next  []int64
	at    int
	block []byte
}

func openOracle(w io.Writer, about source) (encoder, error) {
	size := uint32(min(about.pageSize, math.MaxUint32))
	return &oracleEncoder{w: w, size: max(size, 1), next: about.next}, nil
}

func (e *oracleEncoder) encode(recs []trace.Record) error {
	if len(recs) > len(e.next)-e.at {
		return errors.New("the input grew while it was read")
	}
	e.block = e.block[:0]
	for i := range recs {
		id, err := flat(&recs[i])
		if err != nil {
			return err
		}
		seconds := min(recs[i].Time/1e9, math.MaxUint32)
		e.block = binary.LittleEndian.AppendUint32(e.block, uint32(seconds))
		e.block = binary.LittleEndian.AppendUint64(e.block, id)
		e.block = binary.LittleEndian.AppendUint32(e.block, e.size)
		e.block = binary.LittleEndian.AppendUint64(e.block, uint64(e.next[e.at]))
		e.at++
	}
	_, err := e.w.Write(e.block)
	return err
}

func (e *oracleEncoder) finish() error {
	if e.at != len(e.next) {
		return errors.New("the input shrank while it was read")
	}
	return nil
}

// twoPasses refuses inputs that cannot be read twice by an encoding that needs
// it. A file that is not there is left to be reported when it is opened.
func twoPasses(enc encoding, in string) error {
	if !enc.next {
		return nil
	}
	if in == "-" {
		return fmt.Errorf("%s needs two passes over the input: give a file instead of standard input", enc.name)
	}
	if st, err := os.Stat(in); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return fmt.Errorf("%s: %s needs two passes over the input, and this is not a regular file: convert a copy of it", in, enc.name)
	}
	return nil
}

// nextAccesses finds for each access of a trace the index of the next access
// to the same page, -1 where there is none, by a run of its own: 8 bytes an
// access and 8 a distinct page. Formats that do not hold that get nil.
func nextAccesses(ctx context.Context, enc encoding, pageSize uint64, open func(context.Context) (trace.Reader, error)) (next []int64, err error) {
	if !enc.next {
		return nil, nil
	}
	r, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	pages := sim.NewStream(cancellable{r, ctx}, "", pageSize) // numbers the pages densely
	var last []int64                                          // access to each page, plus 1
	var b sim.Block
	for {
		if err := pages.Next(&b, copyBatch); err == io.EOF {
			return next, nil
		} else if err != nil {
			return nil, err
		}
		if more := b.Pages - len(last); more > 0 {
			last = append(last, make([]int64, more)...)
		}
		for _, a := range b.Accesses {
			before := &last[a.Page()]
			if *before > 0 {
				next[*before-1] = int64(len(next))
			}
			next = append(next, -1)
			*before = int64(len(next))
		}
	}
}
