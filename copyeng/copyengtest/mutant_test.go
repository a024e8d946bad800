package copyengtest

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/copyeng"
)

// mutants are engines with one bug each, and the case that must find it.
var mutants = []struct {
	bug, found string
	make       func(m *mutant)
}{
	{"drops the last page", "Scatter", func(m *mutant) { m.change = dropLast }},
	{"drops the last page of many", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			if len(b.Pairs) > 480 {
				dropLast(b)
			}
		}
	}},
	{"drops the last of the largest pages", "RoundTrip", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			if b.PageSize == copyeng.MaxPage {
				dropLast(b)
			}
		}
	}},
	{"swaps two pages", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			if n := len(b.Pairs); n > 1 {
				b.Pairs[0].Host, b.Pairs[n-1].Host = b.Pairs[n-1].Host, b.Pairs[0].Host
			}
		}
	}},
	{"writes the page behind", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) { shift(b, len(b.Pairs)/2, 1) }
	}},
	{"writes the page before", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) { shift(b, 0, -1) }
	}},
	{"writes pages once more, behind", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			b.Pairs = append(b.Pairs, b.Pairs[0])
			shift(b, len(b.Pairs)-1, 1)
		}
	}},
	{"copies a source only once", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			seen := map[uint32]bool{}
			b.Pairs = slices.DeleteFunc(b.Pairs, func(p copyeng.Pair) bool {
				source := p.Host
				if b.Dir == copyeng.ToHost {
					source = p.Device
				}
				defer func() { seen[source] = true }()
				return seen[source]
			})
		}
	}},
	{"copies half of each page", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			if b.PageSize == copyeng.MinPage {
				return
			}
			b.PageSize /= 2
			for i := range b.Pairs {
				b.Pairs[i].Host *= 2
				b.Pairs[i].Device *= 2
			}
		}
	}},
	{"ignores page numbers, both ways", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			for i := range b.Pairs {
				b.Pairs[i] = copyeng.Pair{Host: uint32(i), Device: uint32(i)}
			}
		}
	}},
	{"exchanges page numbers, both ways", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) {
			limit := uint32(min(b.Host.Size(), b.Device.Size()) >> bits.TrailingZeros(uint(b.PageSize)))
			for i, p := range b.Pairs {
				b.Pairs[i] = copyeng.Pair{Host: p.Device % limit, Device: p.Host % limit}
			}
		}
	}},
	{"ignores the direction", "Scatter", func(m *mutant) {
		m.change = func(b *copyeng.Batch) { b.Dir = copyeng.ToDevice }
	}},
	{"writes one byte beyond a page", "Scatter", func(m *mutant) { m.copy = beyond(+1) }},
	{"writes one byte before a page", "Scatter", func(m *mutant) { m.copy = beyond(-1) }},
	{"writes before a lent space", "Scatter", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			around := m.hosts[len(m.hosts)-1]
			if len(around) > len(b.Host.Bytes()) {
				around[guard-1] ^= 1
			}
			return q.copied(b)
		}
	}},
	{"loses the last byte of a page", "Scatter", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			mem, page := destination(b, b.Pairs[0])
			end := (page+1)*b.PageSize - 1
			old := mem[end]
			err := q.copied(b)
			mem[end] = old
			return err
		}
	}},
	{"reads the pairs late", "Scatter", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			q.held = append(q.held, *b)
			return nil
		}
		m.wait = func(q *mutantQueue, ctx context.Context) error { return errors.Join(q.release(), q.Queue.Wait(ctx)) }
	}},
	{"changes the caller's pairs", "Scatter", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			_, err := q.Queue.Copy(b)
			slices.Reverse(b.Pairs)
			return err
		}
	}},
	{"waits for all but the last batch", "Scatter", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			err := q.release()
			q.held = append(q.held, *own(b))
			return err
		}
	}},
	{"lets a batch overtake", "Order", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			if q.held == nil {
				q.held = append(q.held, *own(b))
				return nil
			}
			_, err := q.Queue.Copy(b)
			return errors.Join(err, q.release())
		}
		m.wait = func(q *mutantQueue, ctx context.Context) error { return errors.Join(q.release(), q.Queue.Wait(ctx)) }
	}},
	{"carries batches out again, late", "OrderRandom", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			_, err := q.Queue.Copy(b)
			err = errors.Join(err, q.release())
			q.held = append(q.held, *own(b))
			return err
		}
	}},
	{"loses a page when two queues are busy", "Overlap", crowded},
	{"loses a page when two queues are busy", "BothWays", crowded},
	{"forgets the second side of an exchange", "Exchange", func(m *mutant) {
		m.exchange = func(q *mutantQueue, in, _ *copyeng.Batch) error {
			_, err := q.Queue.Copy(in)
			return err
		}
	}},
	{"cuts an exchange to its shorter side", "Exchange", func(m *mutant) {
		m.exchange = func(q *mutantQueue, in, out *copyeng.Batch) error {
			in, out = own(in), own(out)
			if n := min(len(in.Pairs), len(out.Pairs)); n > 0 {
				in.Pairs, out.Pairs = in.Pairs[:n], out.Pairs[:n]
			}
			_, err := q.Queue.Exchange(in, out)
			return err
		}
	}},
	{"copies the good side of a bad exchange", "Refusals", func(m *mutant) {
		m.exchange = func(q *mutantQueue, in, out *copyeng.Batch) error {
			_, err := q.Queue.Exchange(in, out)
			if err != nil {
				_ = q.copied(in) // the bug: it may be the good one
			}
			return err
		}
	}},
	{"ignores a page out of bounds", "Refusals", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			_, err := q.Queue.Copy(b)
			var wrong *copyeng.BatchError
			if errors.As(err, &wrong) && strings.HasSuffix(wrong.Field, "page") {
				return nil
			}
			return err
		}
	}},
	{"copies the pages before one out of bounds", "Refusals", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			_, err := q.Queue.Copy(b)
			if err != nil && len(b.Pairs) < 100 {
				part := own(b)
				part.Pairs = part.Pairs[:1]
				_ = q.copied(part) // the bug
			}
			return err
		}
	}},
	{"has untyped errors", "Refusals", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			if _, err := q.Queue.Copy(b); err != nil {
				return errors.New(err.Error())
			}
			return nil
		}
	}},
	{"waits without regard to the context", "Context", func(m *mutant) {
		m.wait = func(q *mutantQueue, _ context.Context) error { return q.Queue.Wait(context.Background()) }
	}},
	{"fails a wait for nothing whose context has ended", "Context", func(m *mutant) {
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return q.Queue.Wait(ctx)
		}
	}},
	{"drops what a wait gave up on", "Context", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			q.held = append(q.held, *own(b))
			return nil
		}
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			if ctx.Err() != nil {
				q.held = nil
			}
			return errors.Join(q.release(), q.Queue.Wait(ctx))
		}
	}},
	{"closes before the work is done", "Close", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			err := q.release()
			q.held = append(q.held, *own(b))
			return err
		}
	}},
	{"takes batches after Close", "Close", func(m *mutant) {
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			if _, err := q.Queue.Copy(b); !errors.Is(err, copyeng.ErrClosed) {
				return err
			}
			return nil
		}
	}},
	{"fails to close twice", "Close", func(m *mutant) {
		m.close = func(q *mutantQueue) error {
			err := q.err
			q.err = copyeng.ErrClosed
			return errors.Join(err, q.Queue.Close())
		}
	}},
	{"loses errors", "Faults", func(m *mutant) {
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			err := q.Queue.Wait(ctx)
			if lost := new(injected); errors.As(err, &lost) {
				return nil
			}
			return err
		}
	}},
	{"loses errors when a wait gave up", "Faults", func(m *mutant) {
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			if ctx.Err() != nil {
				_ = q.Queue.Wait(context.Background()) // the bug: it has the error
			}
			return q.Queue.Wait(ctx)
		}
	}},
	{"loses errors at Close", "Faults", func(m *mutant) {
		m.close = func(q *mutantQueue) error {
			_ = q.Queue.Close()
			return nil
		}
	}},
	{"repeats errors", "Faults", func(m *mutant) {
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			err := q.Queue.Wait(ctx)
			if err == nil {
				err = q.err
			}
			q.err = err
			return err
		}
	}},
	{"stops after an error", "Faults", func(m *mutant) {
		m.wait = func(q *mutantQueue, ctx context.Context) error {
			err := q.Queue.Wait(ctx)
			q.err = errors.Join(q.err, err)
			return err
		}
		m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
			if q.err != nil {
				return nil
			}
			_, err := q.Queue.Copy(b)
			return err
		}
	}},
	{"miscounts", "RoundTrip", func(m *mutant) {
		m.stats = func(s copyeng.Stats) copyeng.Stats {
			p := s.ToHost[copyeng.PathMemory]
			p.Bytes++
			s.ToHost[copyeng.PathMemory] = p
			return s
		}
	}},
	{"counts what it refused", "Refusals", func(m *mutant) {
		m.stats = func(s copyeng.Stats) copyeng.Stats {
			s.ToDevice = map[copyeng.Path]copyeng.PathStats{copyeng.PathMemory: {Batches: 1, Pages: 1, Bytes: 4096}}
			return s
		}
	}},
	{"misstates its choice", "Scatter", func(m *mutant) { m.choice = func(c *copyeng.Choice) { c.Pages++ } }},
	{"takes another path than chosen", "Choices", func(m *mutant) {
		m.choice = func(c *copyeng.Choice) { c.Path = copyeng.PathBatch }
	}},
	{"lends memory that begins anywhere", "Spaces", func(m *mutant) {
		m.lend = func(mem []byte) (*copyeng.Space, error) {
			s, err := m.Engine.LendHost(mem)
			if err != nil && len(mem) > 0 {
				return m.AllocateHost(uint64(len(mem)))
			}
			return s, err
		}
	}},
	{"refuses loans with untyped errors", "Spaces", func(m *mutant) {
		m.lend = func(mem []byte) (*copyeng.Space, error) {
			s, err := m.Engine.LendHost(mem)
			if err != nil {
				err = errors.New(err.Error())
			}
			return s, err
		}
	}},
	{"gives host memory that is not zeroed", "Spaces", func(m *mutant) {
		m.zeroed = func(mem []byte) { mem[len(mem)-1] = 1 }
	}},
}

// beyond changes a byte beside the page that is written last.
func beyond(by int) func(q *mutantQueue, b *copyeng.Batch) error {
	return func(q *mutantQueue, b *copyeng.Batch) error {
		err := q.copied(b)
		mem, page := destination(b, b.Pairs[len(b.Pairs)-1])
		at := page*b.PageSize - 1
		if by > 0 {
			at = (page + 1) * b.PageSize
		}
		if at >= 0 && at < len(mem) {
			mem[at] ^= 0x80
		}
		return err
	}
}

// crowded drops a page of batches that are started while another queue has
// some in flight.
func crowded(m *mutant) {
	m.copy = func(q *mutantQueue, b *copyeng.Batch) error {
		others := m.inFlight.Add(1) - 1 - q.onHere
		q.onHere++
		if others > 0 {
			b = own(b)
			dropLast(b)
		}
		_, err := q.Queue.Copy(b)
		return err
	}
	m.wait = func(q *mutantQueue, ctx context.Context) error {
		m.inFlight.Add(-q.onHere)
		q.onHere = 0
		return q.Queue.Wait(ctx)
	}
}

// check runs a case on a mutant, and gives what the case had to say.
func check(t *testing.T, name string, spoil func(m *mutant)) []string {
	t.Helper()
	open := func(o copyeng.HostOptions) copyeng.Engine {
		m := &mutant{Engine: copyeng.OpenHost(o)}
		spoil(m)
		return m
	}
	o := Options{Short: true, Faulty: func() (copyeng.Engine, func() error, error) {
		var i injector
		return open(copyeng.HostOptions{Fault: i.fault}), i.arm, nil
	}}
	for _, c := range Cases() {
		if c.Name == name {
			var r recorder
			c.Check(&r, func() copyeng.Engine { return open(copyeng.HostOptions{}) }, o)
			return r.errors
		}
	}
	t.Fatalf("no case %s", name)
	return nil
}

// TestMutants sees that each bug is found, by the case that is there for it.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.found+"/"+m.bug, func(t *testing.T) {
			found := check(t, m.found, m.make)
			if len(found) == 0 {
				t.Fatalf("an engine that %s passes the case %s", m.bug, m.found)
			}
			if !strings.Contains(found[0], "seed ") {
				t.Errorf("the failure has no seed: %s", found[0])
			}
			t.Logf("%.300s", found[0])
		})
	}
}

// TestNoMutant sees that what mutants are made of passes: they fail for their
// bugs alone.
func TestNoMutant(t *testing.T) {
	if raceDetector {
		t.Skip("adds nothing to TestHost under the race detector")
	}
	for _, c := range Cases() {
		if found := check(t, c.Name, func(*mutant) {}); len(found) > 0 {
			t.Errorf("the engine without a bug: %s", found)
		}
	}
}
