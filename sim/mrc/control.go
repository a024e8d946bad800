package mrc

import "github.com/tritier/tritier/sim"

// control corrects what a miniature counts by what is known of LRU: its error at
// a size, LRU's misses in the same miniature less those of a better measurement
// (a control variate). Whatever pages a sample happens to have, all policies see
// them, so that most of the error is common to them; and what LRU reads more than
// the bound does in the miniature, it reads more on the curves as well.
type control struct {
	whole *Profile // the better measurement, of the whole trace
	mini  *Profile // LRU's, of the miniature
	scale float64  // counts of the whole for one of the miniature
}

// controlled says whether miniatures are corrected.
func (j *jobs) controlled() bool {
	return j.sample != nil && j.sample.Share < 1 && (j.Correction == "" || j.Correction == CorrectHot)
}

// control is the correction of j's miniatures; nil: none.
func (j *jobs) control() *control {
	if !j.controlled() || !j.passed {
		return nil
	}
	l := NewLRU(j.Seed)
	l.Run(j.sample.Trace.Accesses, j.sample.Trace.Info.Pages)
	return &control{whole: j.pass, mini: l.Profile(), scale: j.sample.Count(1)}
}

// correction names what was done to j's simulations.
func (j *jobs) correction(c *control) Correction {
	switch {
	case j.sample.Share == 1:
		return ""
	case c != nil:
		return CorrectHot
	}
	return CorrectAdj
}

// policy corrects a policy's counts at a size, which were counted at another one
// in the miniature.
func (c *control) policy(t Tally, at, mini Pair) Tally {
	if c == nil {
		return t
	}
	whole, small := c.whole.At(at.GPU, at.Host), c.mini.At(mini.GPU, mini.Host)
	t.T1Hits += whole.T1Hits - (float64(c.whole.Accesses) - c.scale*(float64(c.mini.Accesses)-small.T1Hits))
	t.Fetches = max(t.Fetches+whole.Fetches-c.scale*small.Fetches, c.whole.kinds[fetches].first)
	t.Overwrites += whole.Overwrites - c.scale*small.Overwrites
	t.PrefetchReads += whole.PrefetchReads - c.scale*small.PrefetchReads
	return t
}

// bound corrects a bound's SSD reads likewise. Whatever the policy, the first use
// of a page reads it.
func (c *control) bound(reads float64, at, mini Pair) float64 {
	if c == nil {
		return reads
	}
	reads += c.whole.At(at.GPU, at.Host).SSDReads() - c.scale*c.mini.At(mini.GPU, mini.Host).SSDReads()
	return max(reads, c.whole.kinds[fetches].first)
}

// within makes counts those of a trace: none negative, and together as many as
// there are accesses.
func (t Tally) within(info sim.TraceInfo) Tally {
	accesses := float64(info.Accesses)
	t.PrefetchReads = min(max(t.PrefetchReads, 0), float64(info.Prefetches))
	t.Overwrites = min(max(t.Overwrites, 0), accesses)
	t.Fetches = min(max(t.Fetches, 0), accesses-t.Overwrites)
	t.T1Hits = min(max(t.T1Hits, 0), accesses-t.Overwrites-t.Fetches)
	t.T2Hits = accesses - t.Overwrites - t.Fetches - t.T1Hits
	return t
}
