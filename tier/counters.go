package tier

import "fmt"

// Counters counts what happened to a machine's pages. Accesses are conserved:
//
//	Accesses  = T1Hits + T2Hits + T3Fetches + Overwrites + Errors
//	Evictions = Demotions + Bypasses
type Counters struct {
	Accesses   uint64 `json:"accesses"`     // prefetches are not accesses
	T1Hits     uint64 `json:"t1_hits"`      // found in GPU memory, or on its way there
	T2Hits     uint64 `json:"t2_hits"`      // found in host memory
	T3Fetches  uint64 `json:"t3_fetches"`   // read from SSD
	Overwrites uint64 `json:"overwrites"`   // whole-page writes of pages in neither T1 nor T2
	Errors     uint64 `json:"errors"`       // accesses that got an error
	Delayed    uint64 `json:"delayed_hits"` // T1Hits on a page still Filling

	Evictions   uint64 `json:"evictions"`    // pages that left T1
	Keeps       uint64 `json:"keeps"`        // proposed victims that the placer kept in T1
	Demotions   uint64 `json:"demotions"`    // T1 -> T2
	CopiesSaved uint64 `json:"copies_saved"` // demotions whose clean copy was still in T2
	Bypasses    uint64 `json:"bypasses"`     // T1 victims that skipped T2
	T2Evictions uint64 `json:"t2_evictions"` // pages and clean copies that T2 dropped for room
	Writebacks  uint64 `json:"writebacks"`   // pages written to T3 while running
	FinalDirty  uint64 `json:"final_dirty"`  // pages that a flush at the end would write

	Prefetches    uint64 `json:"prefetches"`     // hints that moved a page to T1
	PrefetchReads uint64 `json:"prefetch_reads"` // those of them that read the SSD
}

// SSDReads is the number of pages read from T3, prefetches included.
func (c *Counters) SSDReads() uint64 { return c.T3Fetches + c.PrefetchReads }

// Check returns an error when a conservation law is broken.
func (c *Counters) Check() error {
	if sum := c.T1Hits + c.T2Hits + c.T3Fetches + c.Overwrites + c.Errors; sum != c.Accesses {
		return fmt.Errorf("tier: %d accesses, but hits, fetches, overwrites and errors add up to %d", c.Accesses, sum)
	}
	if sum := c.Demotions + c.Bypasses; sum != c.Evictions {
		return fmt.Errorf("tier: %d evictions, but demotions and bypasses add up to %d", c.Evictions, sum)
	}
	if c.CopiesSaved > c.Demotions || c.Delayed > c.T1Hits || c.PrefetchReads > c.Prefetches {
		return fmt.Errorf("tier: a part is larger than its whole: %+v", *c)
	}
	return nil
}
