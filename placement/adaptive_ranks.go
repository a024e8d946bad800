package placement

// ranks chooses one of every so many consecutive pages, by a hash, and numbers
// the chosen. So their number is that of all pages divided, but for one, where
// independent draws would be off by its root: a loop that just fails to fit
// into the tiers then fails to fit into smaller ones as well.
type ranks struct {
	seed, every uint64
	pages       int // known
}

// chosen says whether p is one of the chosen: a fixed function of p.
func (r *ranks) chosen(p Page) bool {
	return r.every == 1 || Hash(r.seed, 0, p/Page(r.every))%r.every == uint64(p)%r.every
}

// grow prepares for pages below pages and returns how many ranks they have.
func (r *ranks) grow(pages int) int {
	r.pages = max(r.pages, pages)
	return (r.pages + int(r.every) - 1) / int(r.every)
}

// rank is p's rank; ok when it is chosen and known.
func (r *ranks) rank(p Page) (rank Page, ok bool) {
	if r.every == 1 {
		return p, int(p) < r.pages
	}
	return p / Page(r.every), int(p) < r.pages && r.chosen(p)
}
