package trace

import (
	"errors"
	"io"
	"testing"
)

// readAll reads every record, with a small batch so that batches end in the
// middle of lines, and checks the Reader contract.
func readAll(t testing.TB, r Reader, batch int) ([]Record, error) {
	t.Helper()
	var all []Record
	recs := make([]Record, batch)
	for {
		n, err := r.Next(recs)
		if n > 0 && err != nil || n < 0 || n > batch {
			t.Fatalf("Next returned %d, %v", n, err)
		}
		if err != nil {
			if m, again := r.Next(recs); m != 0 || again != err {
				t.Fatalf("after %v Next returned %d, %v", err, m, again)
			}
			var te *Error
			if err != io.EOF && !errors.As(err, &te) {
				t.Fatalf("%T is not an *Error: %v", err, err)
			}
			return all, err
		}
		if n == 0 {
			t.Fatal("Next returned 0, nil")
		}
		all = append(all, recs[:n]...)
	}
}
