package placement

import "fmt"

// HistoryOf shows a page's record to the data-driven tests.
func (g *GMTReuse) HistoryOf(p Page) string {
	names := [...]string{"short", "medium", "long"}
	h := g.pages[p].history
	next, ok := h.next()
	if !ok {
		return "no history"
	}
	last, _ := h.last()
	s := fmt.Sprintf("last=%s next=%s", names[last], names[next])
	for i := range 9 {
		if n := h >> (countBits * i) & countMax; n > 0 {
			s += fmt.Sprintf(" %s-%s:%d", names[i/3], names[i%3], n)
		}
	}
	return s
}
