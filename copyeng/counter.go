package copyeng

import (
	"maps"
	"sync"
)

// counter is the statistics of an engine.
type counter struct {
	mu   sync.Mutex // protects both
	dirs [2]map[Path]PathStats
}

// add counts pages of one size that were started one way.
func (c *counter) add(d Direction, p Path, pages, page int) {
	if pages == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs[d] == nil {
		c.dirs[d] = map[Path]PathStats{}
	}
	s := c.dirs[d][p]
	s.Batches++
	s.Pages += int64(pages)
	s.Bytes += int64(pages) * int64(page)
	c.dirs[d][p] = s
}

func (c *counter) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{ToDevice: maps.Clone(c.dirs[ToDevice]), ToHost: maps.Clone(c.dirs[ToHost])}
}
