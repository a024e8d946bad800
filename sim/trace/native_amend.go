package trace

import (
	"errors"
	"fmt"
	"io"
)

// ReplaceHeader puts another header into a complete trace in the own format, of size
// bytes: what is known of a trace at its end alone can be said so. The new header must
// be as long as the old one, so that texts that may change need room from the start,
// such as spaces at the end; and PageAddressed must stay.
func ReplaceHeader(f interface {
	io.ReaderAt
	io.WriterAt
}, size int64, path string, h Header) error {
	n, err := OpenNative(f, size, path)
	if err != nil {
		return err
	}
	old := n.Header()
	if err := n.Close(); err != nil {
		return err
	}
	b := h.append(nil)
	switch {
	case len(b) != len(old.append(nil)):
		return fmt.Errorf("%s: the new header has %d bytes, the old one %d", path, len(b), len(old.append(nil)))
	case h.PageAddressed != old.PageAddressed:
		return errors.New("a header cannot make pages of byte ranges, or the reverse")
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("%s: replacing the header: %w", path, err)
	}
	return nil
}
