package placement

// Whom an Adaptive follows.
const (
	leadOrder = iota // tier-order
	leadReuse        // gmt-reuse
)

// Who holds a page: bits of duel.held.
const (
	holdsOrder = 1 << iota // tier-order's shadow
	holdsReuse             // gmt-reuse's shadow
	holdsT1                // T1 of the real memory
	holdsT2                // T2 of the real memory
	wasSeen                // nobody does, but it was accessed
	holdsReal  = holdsT1 | holdsT2
)

// duel compares two shadows and decides which one is followed. What the real
// memory holds is known from the placer's calls: a page that comes in or goes
// in another way (a failed read, a pinned frame) is put right by its next
// access.
type duel struct {
	held    []uint8 // by page
	lacks   [2]int  // pages that a shadow holds and the real memory does not
	fetches [2]int  // of the shadows
	real    int     // of the real memory, for the same pages
	leader  int
	regret  int     // fetches that the other would have saved since they were last none
	least   float64 // regret below which no switch is made
	price   float64

	switches uint64
}

// patience bounds what switches can cost, as a share of the fetches of the
// better shadow so far. Where the winners change faster than it pays to follow
// them, the real memory fetches more than either shadow: for each such share
// that it does, beside the present regret, a switch takes as much regret again.
const patience = 0.005

// newDuel makes a duel of shadows with so many frames. gmt-reuse is followed
// first: while T2 fills, it misses nothing that tier-order would have (pages
// that it would send to T3 go to free slots), and when T2 is full before
// anything is known, it is the one that protects what T2 holds. Two fetches
// more or less say nothing, whatever the size of the tiers.
func newDuel(frames int, hysteresis, price float64) duel {
	return duel{leader: leadReuse, least: 2 + hysteresis*float64(frames), price: price}
}

func (d *duel) grow(pages int) { d.held = grown(d.held, pages) }

// enter notes that p is held by who from now on.
func (d *duel) enter(p Page, who uint8) { d.set(p, d.held[p]|who) }

// leave notes that p is no longer held by who.
func (d *duel) leave(p Page, who uint8) { d.set(p, d.held[p]&^who) }

func (d *duel) set(p Page, now uint8) {
	was := d.held[p]
	if was == now {
		return
	}
	d.held[p] = now
	d.lacks[leadOrder] += lacking(now, holdsOrder) - lacking(was, holdsOrder)
	d.lacks[leadReuse] += lacking(now, holdsReuse) - lacking(was, holdsReuse)
}

// lacking is 1 for a page that the shadow holds and the real memory does not.
func lacking(held, who uint8) int { return int(one(held&who != 0 && held&holdsReal == 0)) }

// fetched notes which of the shadows and the real memory fetched their page
// from T3 in one access, and says whether another one is followed from now on.
func (d *duel) fetched(order, reuse, real bool) bool {
	d.fetches[leadOrder] += int(one(order))
	d.fetches[leadReuse] += int(one(reuse))
	d.real += int(one(real))
	if order == reuse {
		return false
	}
	if order != (d.leader == leadOrder) { // the other one fetched
		d.regret = max(0, d.regret-1)
		return false
	}
	d.regret++
	if float64(d.regret) <= d.threshold() {
		return false
	}
	d.leader, d.regret = 1-d.leader, 0
	d.switches++
	return true
}

// threshold is the regret that must be exceeded for a switch.
func (d *duel) threshold() float64 {
	best := float64(min(d.fetches[leadOrder], d.fetches[leadReuse]))
	lost := max(0, float64(d.real-d.regret)-best) // by switches
	return (d.least + d.price*float64(d.lacks[1-d.leader])) * (1 + lost/(patience*best+1))
}
