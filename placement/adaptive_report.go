package placement

import "fmt"

// AdaptiveReport is whom adaptive followed so far, and why. Accesses are those
// of the memory; the shadows' counts are their own: when they see one in Sample
// pages, about 1/Sample of what the memory would count.
type AdaptiveReport struct {
	Follows  string         `json:"follows"` // now
	Switches uint64         `json:"switches"`
	Followed FollowedCounts `json:"followed"` // accesses by who was followed
	Regret   int            `json:"regret"`   // fetches that the other would have saved of late
	Shadows  ShadowReport   `json:"shadows"`
	Reuse    ReuseReport    `json:"reuse"` // of the gmt-reuse that learns from the memory
}

// FollowedCounts are accesses by the placer that was followed.
type FollowedCounts struct {
	TierOrder uint64 `json:"tier_order"`
	GMTReuse  uint64 `json:"gmt_reuse"`
}

// ShadowReport is what the shadows counted.
type ShadowReport struct {
	Sample   uint64        `json:"sample"`    // they see one in so many pages; 1: all
	Pages    int           `json:"pages"`     // that they saw
	T1Frames int           `json:"t1_frames"` // of each
	T2Frames int           `json:"t2_frames"`
	Accesses uint64        `json:"accesses"`
	Fetches  ShadowFetches `json:"t3_fetches"`
}

// ShadowFetches are the shadows' SSD fetches for accesses (T3 fetches).
type ShadowFetches struct {
	Bypass    uint64 `json:"bypass"`
	TierOrder uint64 `json:"tier_order"`
	GMTReuse  uint64 `json:"gmt_reuse"`
}

// Report returns the figures so far.
func (a *Adaptive) Report() AdaptiveReport {
	led := a.led
	led[a.duel.leader] += a.now - a.since
	r := AdaptiveReport{
		Follows: "tier-order", Switches: a.duel.switches, Regret: a.duel.regret, Reuse: a.real.Report(),
		Followed: FollowedCounts{TierOrder: led[leadOrder], GMTReuse: led[leadReuse]},
		Shadows: ShadowReport{
			Sample: a.shadows.every, Pages: a.pages, T1Frames: a.order.t1.Cap(), Accesses: a.seen,
			Fetches: ShadowFetches{Bypass: a.bypass, TierOrder: a.order.fetches, GMTReuse: a.reuse.fetches},
		},
	}
	if a.duel.leader == leadReuse {
		r.Follows = "gmt-reuse"
	}
	if a.order.t2 != nil {
		r.Shadows.T2Frames = a.order.t2.Cap()
	}
	return r
}

// Share is the part of the accesses during which gmt-reuse was followed, 0 to 1.
func (r AdaptiveReport) Share() float64 {
	all := r.Followed.TierOrder + r.Followed.GMTReuse
	if all == 0 {
		return 0
	}
	return float64(r.Followed.GMTReuse) / float64(all)
}

// Explain says in a sentence whom adaptive follows.
func (r AdaptiveReport) Explain() string {
	times := "times"
	if r.Switches == 1 {
		times = "time"
	}
	return fmt.Sprintf("follows %s, switched %d %s, gmt-reuse followed for %.1f%% of the accesses", r.Follows, r.Switches, times, 100*r.Share())
}

// String is the report in one line.
func (r AdaptiveReport) String() string {
	f := r.Shadows.Fetches
	of := "all pages"
	if r.Shadows.Sample > 1 {
		of = fmt.Sprintf("one in %d pages", r.Shadows.Sample)
	}
	return fmt.Sprintf("%s; fetches of shadows over %s: bypass %d, tier-order %d, gmt-reuse %d", r.Explain(), of, f.Bypass, f.TierOrder, f.GMTReuse)
}
