package drive

import (
	"time"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm/soft"
)

// stripe is the unit in which a paced array spreads its blocks over its drives.
const stripe = 4096

// arrayPacer paces one software drive as an array of equal drives of a model,
// striped: a command is done when each drive that it touches has done its part.
type arrayPacer struct{ drives []*soft.ModelPacer }

// NewPacer paces drive number index of a list of several as its share of a model's
// drives: what OpenList does for the drives that it opens.
func NewPacer(m *servicetime.Model, seed uint64, index, of int) soft.Pacer {
	return newArrayPacer(m, seed, part{index, of})
}

// newArrayPacer makes the pacer of place p of a list: its share of the drives.
func newArrayPacer(m *servicetime.Model, seed uint64, p part) *arrayPacer {
	share := max(m.Drives.Count/p.of, 1)
	a := &arrayPacer{}
	for i := range share {
		a.drives = append(a.drives, soft.NewModelPacer(m, seed+uint64(p.index*share+i)))
	}
	return a
}

// Finish implements soft.Pacer. The drives share out the command's stripes
// evenly, beginning with the one that its first block lies on.
func (a *arrayPacer) Finish(now time.Duration, c *soft.CommandInfo) time.Duration {
	if c.Blocks == 0 || c.Queue == 0 {
		return now
	}
	n := uint64(len(a.drives))
	size := uint64(max(c.Bytes, 0)) / uint64(c.Blocks) // of a block; 0 for commands without data
	first := c.LBA
	stripes := uint64(1)
	if size > 0 {
		first = c.LBA * size / stripe
		stripes = (c.LBA*size+uint64(c.Bytes)-1)/stripe - first + 1
	}
	due := now
	for i := range min(stripes, n) {
		x := *c
		x.Bytes = share(c.Bytes, stripes, n, i)
		due = max(due, a.drives[(first+i)%n].Finish(now, &x))
	}
	return due
}

// share is what drive i of n moves of a command of several stripes: whole
// stripes' worth of its bytes, the remainder on the first.
func share(bytes int64, stripes, n, i uint64) int64 {
	mine := stripes / n
	if i < stripes%n {
		mine++
	}
	part := bytes / int64(stripes)
	if i == 0 {
		return part*int64(mine) + bytes%int64(stripes)
	}
	return part * int64(mine)
}
