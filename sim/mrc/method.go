package mrc

import (
	"fmt"
	"math"
)

// Method says how much of a trace a curve is made from.
type Method struct {
	// Rate is the share of the pages that is sampled; 0 and 1: all of them. Of
	// a curve with MaxPages it is what the rate was in the end.
	Rate     float64 `json:"rate"`
	MaxPages int     `json:"max_pages,omitempty"` // at most so many pages are sampled; 0: no limit
	Seed     uint64  `json:"seed"`                // of the choice of pages
	// Correction says how LRU's counts of a sample become those of the whole.
	Correction Correction `json:"correction,omitempty"`
}

// Correction says what is done about a sample that has too many accesses or too
// few.
type Correction string

// The corrections.
const (
	// CorrectHot counts hot pages apart, and makes the accesses of each sort as
	// many as they are: the most accurate, and what none named means.
	CorrectHot Correction = "hot"
	// CorrectAdj takes the accesses that the sample has too few or too many for
	// hits of hot pages at any size: SHARDS-adj.
	CorrectAdj Correction = "adj"
	// CorrectNone scales what the sample counts by the number of its accesses:
	// SHARDS.
	CorrectNone Correction = "none"
)

// Check returns an error for a method that makes no sense.
func (m Method) Check() error {
	switch {
	case !(m.Rate >= 0 && m.Rate <= 1):
		return fmt.Errorf("mrc: rate %v: a sampling rate is above 0 and up to 1", m.Rate)
	case m.MaxPages < 0:
		return fmt.Errorf("mrc: %d pages: a sample has at least one", m.MaxPages)
	case m.MaxPages > 0 && m.Rate > 0 && m.Rate < 1:
		return fmt.Errorf("mrc: a rate of %v and at most %d pages: a sample has one of the two", m.Rate, m.MaxPages)
	case m.Correction != "" && m.Correction != CorrectHot && m.Correction != CorrectAdj && m.Correction != CorrectNone:
		return fmt.Errorf("mrc: no correction %q", m.Correction)
	}
	return nil
}

// exact says whether every page is sampled.
func (m Method) exact() bool { return m.MaxPages == 0 && (m.Rate == 0 || m.Rate == 1) }

// MinSampled is the number of sampled pages below which a curve is not to be
// relied on.
const MinSampled = 5000

// ExpectedError is the mean absolute error of the miss ratio, over sizes from a
// thousandth of the pages to all of them, that 9 of 10 samples of so many pages
// stay below. The figures are those of the worst of the traces in docs/mrc-speed.md;
// most have a third of it.
func (c Correction) ExpectedError(sampled int) float64 {
	n := float64(max(sampled, 1))
	switch c {
	case CorrectNone:
		return 0.4 // a few hot pages decide, however many are sampled
	case CorrectAdj:
		return min(0.4, 3/math.Sqrt(n))
	}
	return min(0.4, 0.4/math.Sqrt(n)+60/n)
}
