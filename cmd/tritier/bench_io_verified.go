package main

import "github.com/tritier/tritier/internal/units"

// allVerified says that bytes were compared, all that were read or written, and are right.
func (r *ioRow) allVerified() bool { return r.wrong == 0 && r.checked && r.verified > 0 }

// verifiedAll says that every byte of every row was compared and is right.
func (r *ioReport) verifiedAll() bool {
	for i := range r.rows {
		if !r.rows[i].allVerified() {
			return false
		}
	}
	return true
}

// verification says what became of the data.
func (r *ioReport) verification() string {
	var verified, wrong, open, none uint64
	for i := range r.rows {
		x := &r.rows[i]
		verified += x.verified
		wrong += x.wrong
		switch {
		case !x.checked:
			open++
		case x.verified == 0:
			none++
		}
	}
	compared := units.FormatCount(verified) + " bytes compared"
	switch {
	case wrong > 0:
		return "WRONG DATA among " + compared
	case verified == 0:
		return "NOTHING: no byte was read and compared"
	case open > 0:
		return compared + ", all as written, but what was written beside writes that failed is not known in " + plural(open, "row")
	case none > 0:
		return compared + ", all as written, but nothing in " + plural(none, "row") + ", where no read succeeded"
	}
	return "every byte; " + compared + ", all as written"
}
