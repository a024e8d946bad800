package placement

import "fmt"

// HistoryOf shows a page's record to the data-driven tests.
func (g *GMTReuse) HistoryOf(p Page) string {
	names := [...]string{"short", "medium", "long"}
	h := g.pages[p].history
	if h.next() == reuseUnknown {
		return "no history"
	}
	s := fmt.Sprintf("last=%s next=%s", names[h.last()], names[h.next()])
	for i := range 9 {
		if n := h >> (countBits * i) & countMax; n > 0 {
			s += fmt.Sprintf(" %s-%s:%d", names[i/3], names[i%3], n)
		}
	}
	return s
}
