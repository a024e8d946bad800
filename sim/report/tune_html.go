package report

import "io"

// HTML writes one page that holds everything.
func (t *Tune) HTML(w io.Writer) error { return t.Table(w) }
