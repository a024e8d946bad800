package copyeng

import (
	"fmt"
	"strings"
	"time"
)

// Path is a way to carry a batch out.
type Path string

// The paths. Hybrid paths are named after the share of pages that go by batch.
const (
	PathNone     Path = "none"         // an empty batch
	PathMemory   Path = "memory"       // the Host engine: the CPU copies
	PathMemcpy   Path = "memcpy-async" // one driver call a page
	PathBatch    Path = "batch"        // one driver call for all pages
	PathBatch2   Path = "batch-2"      // the same over two streams
	PathBatch4   Path = "batch-4"      // the same over four streams
	PathZeroCopy Path = "zero-copy"    // one kernel
	PathHybrid25 Path = "hybrid-25"    // a kernel, and a quarter by batch
	PathHybrid50 Path = "hybrid-50"    // a kernel, and half by batch

	PathExchange   Path = "exchange"   // one kernel for both directions
	PathTwoBatches Path = "batches-4"  // both directions by batch at once, each over four streams
	PathSequential Path = "sequential" // one direction after the other, each by its own path
)

// Alternative is a path that was weighed, with the time predicted for it.
type Alternative struct {
	Path Path
	Time time.Duration
}

// Choice is the path of a batch and the reason for it.
type Choice struct {
	Path    Path
	Dir     Direction
	Page    int           // bytes
	Pages   int           // of the batch; of an exchange, of its longer side
	Time    time.Duration // predicted; 0 when the engine has no curves
	Source  string        // where the curves come from
	choices *curveTable   // nil when there was nothing to choose
}

// Alternatives are the paths that the chooser weighed, fastest first.
func (c Choice) Alternatives() []Alternative {
	if c.choices == nil {
		return nil
	}
	return c.choices.alternatives(c.Dir, c.Page, c.Pages)
}

// Why explains the choice in one line.
func (c Choice) Why() string {
	head := fmt.Sprintf("%s for %d pages of %d bytes %s", c.Path, c.Pages, c.Page, c.Dir)
	list := c.Alternatives()
	if len(list) == 0 {
		return head + ": " + c.Source
	}
	parts := make([]string, 0, len(list))
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%s %.1f us", a.Path, float64(a.Time)/1e3))
	}
	return head + ": predicted " + strings.Join(parts, ", ") + " (" + c.Source + ")"
}

// noChoice is the answer for what is not copied at all: none says whether that
// is so. Only the first of the directions are known to the caller.
func noChoice(dir Direction, page, n int, known Direction) (c Choice, none bool) {
	c = Choice{Path: PathNone, Dir: dir, Page: page, Pages: n}
	switch {
	case dir >= known:
		c.Source = "no such direction"
	case !validPage(page):
		c.Source = fmt.Sprintf("page size %d is not a power of two from %d to %d", page, MinPage, MaxPage)
	case n <= 0:
		c.Source = "nothing to copy"
	case n > MaxPages:
		c.Source = fmt.Sprintf("%d are more than the %d pages of a batch; split it", n, MaxPages)
	default:
		return c, false
	}
	return c, true
}

// PathStats counts what went one way.
type PathStats struct {
	Batches, Pages, Bytes int64
}

// Stats is what an engine has started, by direction and path. A batch that
// failed when it was started is not counted.
type Stats struct {
	ToDevice, ToHost map[Path]PathStats
}
