package copyengtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tritier/tritier/copyeng"
)

// guard is what lies on either side of a lent host space, in bytes: not a
// multiple of most page sizes, so that pages of a lent space are not aligned.
const guard = 4096 + granule

// world is a host and a device space with the models of them.
type world struct {
	*env
	host, device *memory
	around       *memory // the allocation that host is lent from, or host itself
}

// newWorld makes spaces of at least so many bytes, poisoned. Every other
// world's host space is lent from the middle of a larger one.
func (e *env) newWorld(hostBytes, deviceBytes uint64) (*world, error) {
	w := &world{env: e}
	e.worlds = append(e.worlds, w)
	e.made++
	if err := w.makeHost(roundUp(hostBytes), e.made%2 == 0); err != nil {
		return nil, err
	}
	s, err := e.engine.Allocate(roundUp(deviceBytes))
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of device memory: %w", roundUp(deviceBytes), err)
	}
	w.device = newMemory("device", s, &e.o)
	return w, w.poison()
}

func roundUp(n uint64) uint64 { return (n + granule - 1) / granule * granule }

func (w *world) makeHost(size uint64, lend bool) error {
	whole := size
	if lend {
		whole += 2 * guard
	}
	s, err := w.engine.AllocateHost(whole)
	if err != nil {
		return fmt.Errorf("allocate %d bytes of host memory: %w", whole, err)
	}
	w.around = newMemory("host", s, &w.o)
	w.host = w.around
	if !lend {
		return nil
	}
	lent, err := w.engine.LendHost(s.Bytes()[guard:][:size:size])
	if err != nil {
		return fmt.Errorf("lend %d bytes of host memory: %w", size, err)
	}
	// The lent space's tags are a part of the allocation's.
	w.host = newMemory("lent host", lent, &w.o, window{0, w.around.windows[0].tags[guard/granule:][:size/granule]})
	return nil
}

// poison gives both spaces and the guards fresh contents.
func (w *world) poison() error {
	return errors.Join(w.around.poison(w.rng), w.device.poison(w.rng))
}

// drop closes the world's spaces before the end of its case.
func (w *world) drop() error {
	w.worlds = slices.DeleteFunc(w.worlds, func(other *world) bool { return other == w })
	return w.close()
}

func (w *world) close() error {
	var errs []error
	for _, m := range []*memory{w.host, w.around, w.device} {
		if m == nil {
			continue
		}
		if err := m.space.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s space: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// batch makes a batch between the world's spaces.
func (w *world) batch(d copyeng.Direction, size int, pairs []copyeng.Pair) *copyeng.Batch {
	return &copyeng.Batch{Dir: d, Host: w.host.space, Device: w.device.space, PageSize: size, Pairs: pairs}
}

// apply carries a batch out in the model.
func (w *world) apply(d copyeng.Direction, size int, pairs []copyeng.Pair) {
	n := uint64(size)
	for _, p := range pairs {
		host, device := w.host.tags(uint64(p.Host)*n, n), w.device.tags(uint64(p.Device)*n, n)
		if d == copyeng.ToDevice {
			copy(device, host)
		} else {
			copy(host, device)
		}
	}
}

// copy starts a batch, and carries it out in the model. The pairs are
// overwritten, as their owner may once Copy has returned.
func (w *world) copy(q copyeng.Queue, b *copyeng.Batch) error {
	pairs := slices.Clone(b.Pairs)
	c, err := q.Copy(b)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(b), err)
	}
	if len(pairs) > 0 && (c.Dir != b.Dir || c.Page != b.PageSize || c.Pages != len(pairs)) {
		return fmt.Errorf("%s: the choice is for %d pages of %d bytes %s", describe(b), c.Pages, c.Page, c.Dir)
	}
	if err := w.started(b, pairs, c); err != nil {
		return err
	}
	return w.checkChoice(c, len(pairs))
}

// exchange starts two batches together, and carries them out in the model.
func (w *world) exchange(q copyeng.Queue, in, out *copyeng.Batch) error {
	pairsIn, pairsOut := slices.Clone(in.Pairs), slices.Clone(out.Pairs)
	c, err := q.Exchange(in, out)
	if err != nil {
		return fmt.Errorf("exchange of %s and %s: %w", describe(in), describe(out), err)
	}
	if err := errors.Join(w.started(in, pairsIn, c), w.started(out, pairsOut, c)); err != nil {
		return err
	}
	return w.checkChoice(c, len(pairsIn)+len(pairsOut))
}

func describe(b *copyeng.Batch) string {
	return fmt.Sprintf("copy of %d pages of %d bytes %s", len(b.Pairs), b.PageSize, b.Dir)
}

// started accounts for a batch that an engine has taken.
func (w *world) started(b *copyeng.Batch, pairs []copyeng.Pair, c copyeng.Choice) error {
	if !slices.Equal(b.Pairs, pairs) {
		return fmt.Errorf("%s: the engine changed the caller's pairs", describe(b))
	}
	w.count(b)
	w.apply(b.Dir, b.PageSize, pairs)
	for i := range b.Pairs {
		b.Pairs[i] = copyeng.Pair{} // valid page numbers, so that one read late shows as wrong data
	}
	return nil
}

// checkChoice looks at a choice that came with a batch of n pages.
func (w *world) checkChoice(c copyeng.Choice, n int) error {
	if w.o.Paths != nil {
		w.o.Paths(c)
	}
	if (c.Path == copyeng.PathNone) != (n == 0) || c.Path == "" {
		return fmt.Errorf("path %q for %d pages", c.Path, n)
	}
	return nil
}

// verify compares every byte of both spaces, and of what is around a lent one.
func (w *world) verify() error {
	var report []string
	for _, m := range []*memory{w.around, w.device} {
		list, err := m.compare()
		if err != nil {
			return err
		}
		report = append(report, w.explain(m, list)...)
	}
	if len(report) == 0 {
		return nil
	}
	return errors.New(strings.Join(report, "; "))
}

// explain says what is wrong, and where wrong data comes from if it is known.
func (w *world) explain(m *memory, list []wrong) (report []string) {
	for i, d := range list {
		if i == 4 {
			return append(report, fmt.Sprintf("and %d more pieces of %d bytes of %s memory", len(list)-i, granule, m.name))
		}
		s := fmt.Sprintf("%s memory of %d bytes: %d bytes wrong from byte %d on", m.name, m.space.Size(), d.bytes, d.offset)
		if at := w.origin(d.first); at != "" {
			s += ", with the data of " + at
		}
		report = append(report, s)
	}
	return report
}

// origin finds the granule whose contents begin with a word.
func (w *world) origin(word uint64) string {
	for _, m := range []*memory{w.around, w.device} {
		for _, win := range m.windows {
			for i, tag := range win.tags {
				if word != 0 && mix(tag) == word {
					return fmt.Sprintf("%s byte %d", m.name, win.offset+uint64(i)*granule)
				}
			}
		}
	}
	return ""
}
