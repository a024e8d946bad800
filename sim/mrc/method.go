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
}

// Check returns an error for a method that makes no sense.
func (m Method) Check() error {
	switch {
	case !(m.Rate >= 0 && m.Rate <= 1):
		return fmt.Errorf("mrc: rate %v: a sampling rate is above 0 and up to 1", m.Rate)
	case m.MaxPages < 0:
		return fmt.Errorf("mrc: %d pages: a sample has at least one", m.MaxPages)
	case m.MaxPages > 0 && m.Rate > 0 && m.Rate < 1:
		return fmt.Errorf("mrc: a rate of %v and at most %d pages: a sample has one of the two", m.Rate, m.MaxPages)
	}
	return nil
}

// exact says whether every page is sampled.
func (m Method) exact() bool { return m.MaxPages == 0 && (m.Rate == 0 || m.Rate == 1) }

// MinSampled is the number of sampled pages below which a curve is not to be
// relied on.
const MinSampled = 5000

// errorFactor over the root of the number of sampled pages is the mean absolute
// error of a miss ratio that 9 of 10 samples stay below: see docs/mrc-speed.md
// for how it was measured.
const errorFactor = 0.5

// ExpectedError is the mean absolute error of the miss ratio, over the sizes,
// that a curve of so many sampled pages may be expected to have.
func ExpectedError(sampled int) float64 {
	return min(1, errorFactor/math.Sqrt(float64(max(sampled, 1))))
}
