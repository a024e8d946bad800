package bundled

import (
	"io"
	"testing"

	"github.com/tritier/tritier/sim/trace"
)

// TestOpen counts the trace's records against traces/README's figures, twice,
// since Readers must not share state.
func TestOpen(t *testing.T) {
	for range 2 {
		r, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		records, requests := 0, 0
		recs := make([]trace.Record, 4096)
		for {
			n, err := r.Next(recs)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs[:n] {
				records++
				if rec.Flags&trace.RequestStart != 0 {
					requests++
				}
			}
		}
		if records != 288_500 || requests != 12_031 {
			t.Errorf("%d records, %d requests; want 288500, 12031", records, requests)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
