package main

import "github.com/tritier/tritier/sim/trace"

// timedReader notes how long the program of a trace took.
type timedReader struct {
	trace.Reader
	first, last uint64 // ns
	seen        bool
}

// Next implements trace.Reader.
func (r *timedReader) Next(recs []trace.Record) (int, error) {
	n, err := r.Reader.Next(recs)
	for i := range recs[:n] {
		t := recs[i].Time
		if !r.seen {
			r.first, r.last, r.seen = t, t, true
		}
		r.first, r.last = min(r.first, t), max(r.last, t)
	}
	return n, err
}

// Info passes the description on.
func (r *timedReader) Info() trace.Info { return infoOf(r.Reader) }

// Progress passes the progress on.
func (r *timedReader) Progress() (done, total int64) { return progressOf(r.Reader)() }

// seconds is the time from the first record to the last; 0 when the format has
// none.
func (r *timedReader) seconds() float64 { return float64(r.last-r.first) / 1e9 }
