package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"

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

// pageKey is a page's identity.
type pageKey struct {
	page  uint64
	array uint32
}

// nextAccesses finds for each access of a trace the index of the next access
// to the same page, -1 where there is none, by a run of its own: 8 bytes an
// access. Formats that do not hold that get nil.
func nextAccesses(ctx context.Context, enc encoding, pageSize uint64, open func(context.Context) (trace.Reader, error)) (next []int64, err error) {
	if !enc.next {
		return nil, nil
	}
	r, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	last := map[pageKey]int{}
	pages := pagesOf(cancellable{r, ctx}, pageSize)
	recs := make([]trace.Record, copyBatch)
	for {
		n, err := pages.Next(recs)
		if errors.Is(err, io.EOF) && n == 0 {
			return next, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range recs[:n] {
			key := pageKey{recs[i].Addr, recs[i].Array}
			if before, seen := last[key]; seen {
				next[before] = int64(len(next))
			}
			last[key] = len(next)
			next = append(next, -1)
		}
	}
}
