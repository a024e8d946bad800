package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

const (
	trackPages = trackEvents + int(host.EventKinds)*lanes // rows of multiprocessors from here on
	mostRows   = 4096                                     // of one: it has fewer threads
)

var opNames = [...]string{tier.Read: "read", tier.Write: "write", tier.Overwrite: "overwrite", tier.Prefetch: "prefetch"}

// pageRows draws what kernels tell of single pages: a row for each miss that a
// multiprocessor has at a time, with the miss's moves in it.
type pageRows struct {
	rows  map[int][]time.Time // of each multiprocessor: until when they are busy
	track int                 // of the miss at hand
	out   bool                // it is left out
	names map[string][]byte   // of arrays, as JSON
	buf   []byte
}

// row is a row that is free from start on: of those the one that was busy last, which makes
// the fewest rows, since misses come by the time of their end.
// One beyond the last: there is none.
func (r *pageRows) row(sm int, start time.Time) int {
	list := r.rows[sm]
	best := len(list)
	for i, until := range list {
		if !until.After(start) && (best == len(list) || until.After(list[best])) {
			best = i
		}
	}
	return best
}

// page writes an event of engine gpu. The caller has mu.
func (t *timeline) page(e lib.Event) {
	r := t.pages
	if e.Kind == host.EventMiss || e.Kind == host.EventSave {
		t.beginPage(e)
	}
	if r.out {
		return
	}
	t.moves++
	b := append(r.buf[:0], `{"ph":"X","pid":1,"tid":`...)
	b = strconv.AppendInt(b, int64(r.track), 10)
	b = append(append(append(b, `,"cat":"tier","name":"`...), e.Kind.String()...), `","ts":`...)
	b = append(appendMicro(b, max(e.Start.Sub(t.begun), 0)), `,"dur":`...)
	b = append(appendMicro(b, e.Took), `,"args":{"array":`...)
	b = append(append(b, r.name(e.Array)...), `,"page":`...)
	b = strconv.AppendUint(b, e.Page, 10)
	if e.Kind == host.EventMiss {
		b = append(append(append(b, `,"op":"`...), opNames[e.Op&3]...), '"')
	}
	b = strconv.AppendInt(append(b, `,"stripe":`...), int64(e.Stripe), 10)
	if e.Failed {
		b = append(b, `,"failed":true`...)
	}
	r.buf = append(b, "}}"...)
	t.raw(r.buf)
}

// beginPage finds a row for a miss, or leaves it out.
func (t *timeline) beginPage(e lib.Event) {
	r := t.pages
	row := mostRows
	if t.moves < mostMoves {
		row = r.row(e.SM, e.Start)
	}
	if r.out = row == mostRows; r.out {
		t.over++
		return
	}
	if r.rows == nil {
		r.rows, r.names = map[int][]time.Time{}, map[string][]byte{}
	}
	r.track = trackPages + e.SM*mostRows + row
	if row == len(r.rows[e.SM]) {
		r.rows[e.SM] = append(r.rows[e.SM], time.Time{})
		t.meta("thread_name", r.track, fmt.Sprintf("SM %d, misses %d", e.SM, row+1))
	}
	r.rows[e.SM][row] = e.Start.Add(e.Took)
}

// name is an array's name as JSON.
func (r *pageRows) name(array string) []byte {
	n, known := r.names[array]
	if !known {
		n, _ = json.Marshal(array) // a string always encodes
		r.names[array] = n
	}
	return n
}

// appendMicro appends a time in microseconds, to the nanosecond.
func appendMicro(b []byte, d time.Duration) []byte {
	b = append(strconv.AppendInt(b, int64(d/1000), 10), '.')
	rest := int64(d % 1000)
	return append(b, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
