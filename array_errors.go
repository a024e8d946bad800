package tritier

import (
	"errors"

	"github.com/tritier/tritier/tier/host"
)

// failures collects the accesses that failed over the parts of a batch.
type failures struct{ e *BatchError }

// add takes a part's error over and says whether the batch may go on.
func (f *failures) add(err error) bool {
	if err == nil {
		return true
	}
	var part *BatchError
	if !errors.As(err, &part) {
		return false
	}
	if f.e == nil {
		f.e = part
		return true
	}
	f.e.Accesses += part.Accesses
	f.e.Failed += part.Failed
	room := max(host.MaxNamed-len(f.e.Pages), 0)
	f.e.Pages = append(f.e.Pages, part.Pages[:min(room, len(part.Pages))]...)
	return true
}

// err is what failed, or nil.
func (f *failures) err() error {
	if f.e == nil {
		return nil
	}
	return f.e
}
