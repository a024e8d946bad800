package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/tritier/tritier/internal/gate"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

// Options describe a Memory.
type Options struct {
	PageSize int // bytes, a power of two
	T1       int // frames of T1
	T2       int // slots of T2 that hold pages; 0: no host tier
	// Spares are slots beyond T2, through which pages pass on their way: at least
	// 2; about a quarter as many pages move at once, while as many more are being read. The engine has T2+Spares slots.
	Spares int
	Policy placement.Spec
	Seed   uint64 // of the policy's random choices
	// Retries is how often a failed read or write of T3 is tried again.
	Retries int
	// Timeout bounds the moves of one wave; 30 s when zero.
	Timeout time.Duration
	// Observe, if set, is told of every page access, in order, before it is made.
	Observe func(array int, page uint64, op tier.Op)
	// Events, if set, is told of every move that has ended. It must not call the
	// Memory.
	Events func(Event)
}

const defaultTimeout = 30 * time.Second

// Memory is three tiers under the CPU's page table.
type Memory struct {
	o      Options
	eng    Engine
	t3     Tier3
	mu     gate.Gate // guards everything below
	plan   *tier.Plan
	placer placement.Placer
	arrays []array // by base
	closed bool
	broken *BrokenError
	torn   bool // a move within T1 and T2 has failed: what they hold is unknown
	pins   map[placement.Page]int
	batch  *batch          // that is being carried out
	ctx    context.Context // of its caller
	stats  Stats
	io     ioLists // reused by every wave
	order  []Span  // and these by every batch, see batch
	access [][2]int
}

// array is a range of dense page indices.
type array struct {
	id      int
	name    string
	base    placement.Page
	pages   uint64
	dropped bool
}

// New makes a memory over an engine and a store, with every page in T3. They stay
// the caller's to close, after the memory.
func New(eng Engine, t3 Tier3, o Options) (*Memory, error) {
	policy, err := o.Policy.Build(placement.Env{T1Frames: o.T1, T2Frames: o.T2, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	m := &Memory{o: o, eng: eng, t3: t3, placer: policy.Placer, mu: gate.New(), pins: map[placement.Page]int{}, ctx: context.Background()}
	m.io.tail.source = make([]bool, max(o.T2, 0)+max(o.Spares, 0))
	m.plan, err = tier.NewPlan(tier.PlanConfig{
		Config: tier.Config{T1: policy.T1, T2: policy.T2, Placer: policy.Placer, KeepT2Copy: policy.KeepT2Copy, Pins: pinned{m}},
		Spares: o.Spares,
		Carry:  m.carry,
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// pinned is the view of the pins that the policy has.
type pinned struct{ m *Memory }

func (p pinned) Pinned(page placement.Page) bool { return p.m.pins[page] > 0 }

// NewArray adds an array of pages, which the store knows as id; all of them are in
// T3. It returns the array's first page, which Batch.Spans count from.
func (m *Memory) NewArray(id int, name string, pages uint64) (placement.Page, error) {
	m.mu.Lock()
	defer m.mu.Leave()
	if err := m.usable(); err != nil {
		return 0, err
	}
	if base, ok := m.reuse(id, name, pages); ok {
		return base, nil
	}
	base := uint64(m.plan.Pages())
	if pages == 0 || pages > placement.MaxPages || base+pages > placement.MaxPages {
		return 0, fmt.Errorf("array %q of %d pages: a memory holds 1 to %d pages, %d are taken: use larger pages", name, pages, placement.MaxPages, base)
	}
	if err := m.plan.Grow(int(base + pages)); err != nil {
		return 0, err
	}
	m.arrays = append(m.arrays, array{id: id, name: name, base: placement.Page(base), pages: pages})
	return placement.Page(base), nil
}

// reuse takes the page numbers of arrays that were dropped, if there are enough in
// a row.
func (m *Memory) reuse(id int, name string, pages uint64) (placement.Page, bool) {
	for i := range m.arrays {
		a := &m.arrays[i]
		if !a.dropped || a.pages < pages || pages == 0 {
			continue
		}
		base, left := a.base, a.pages-pages
		*a = array{id: id, name: name, base: base, pages: pages}
		if left > 0 {
			rest := array{base: base + placement.Page(pages), pages: left, dropped: true}
			m.arrays = slices.Insert(m.arrays, i+1, rest)
		}
		return base, true
	}
	return 0, false
}

// free marks array i as dropped, and joins it with dropped ones beside it.
func (m *Memory) free(i int) {
	m.arrays[i].dropped = true
	for _, k := range []int{i, i - 1} {
		if k >= 0 && k+1 < len(m.arrays) && m.arrays[k].dropped && m.arrays[k+1].dropped {
			m.arrays[k].pages += m.arrays[k+1].pages
			m.arrays = slices.Delete(m.arrays, k+1, k+2)
		}
	}
}

// DropArray forgets the array's pages, dirty ones too. None may be pinned. Its page
// numbers may become another array's.
func (m *Memory) DropArray(base placement.Page) error {
	m.mu.Lock()
	defer m.mu.Leave()
	if err := m.usable(); err != nil {
		return err
	}
	a := m.find(base)
	if a == nil || a.base != base || a.dropped {
		return fmt.Errorf("no array begins at page %d", base)
	}
	end := base + placement.Page(a.pages)
	for p := range m.pins {
		if p >= base && p < end {
			return &PageError{a.name, uint64(p - base), errors.New("the page is pinned: unpin it before its array goes")}
		}
	}
	for p := base; p < end; p++ {
		m.plan.Forget(p)
	}
	m.free(int(slices.IndexFunc(m.arrays, func(x array) bool { return x.base == base })))
	return nil
}

// find is the array that the page belongs to, or nil.
func (m *Memory) find(p placement.Page) *array {
	i := sort.Search(len(m.arrays), func(i int) bool { return m.arrays[i].base > p }) - 1
	if i < 0 || uint64(p-m.arrays[i].base) >= m.arrays[i].pages {
		return nil
	}
	return &m.arrays[i]
}

// usable says why the memory takes no work, or nil.
func (m *Memory) usable() error {
	if m.broken != nil {
		return m.broken
	}
	if m.closed {
		return ErrClosed
	}
	return nil
}

func (m *Memory) pageError(p placement.Page, err error) *PageError {
	a := m.find(p)
	return &PageError{a.name, uint64(p - a.base), err}
}

// enter waits for the call that is under way, or for the end of ctx.
func (m *Memory) enter(ctx context.Context) error {
	if err := m.mu.Enter(ctx); err != nil {
		return fmt.Errorf("another call has not ended: %w", err)
	}
	return nil
}

// Check proves the invariants of the page table and the tiers' places.
func (m *Memory) Check() error {
	m.mu.Lock()
	defer m.mu.Leave()
	if m.broken != nil {
		return m.broken
	}
	return m.plan.Check()
}

// Close flushes, and refuses everything after. What could not be written is in
// the error, a *FlushError or *BrokenError; it is lost, but for what Kept lists. When ctx
// ends first, nothing is: the memory stays open, and the error is ErrNotClosed too.
func (m *Memory) Close(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return errors.Join(ErrNotClosed, err)
	}
	defer m.mu.Leave()
	if m.closed {
		return nil
	}
	if m.broken != nil {
		m.closed = true
		return m.broken
	}
	err := m.flush(ctx)
	if err != nil && ctx.Err() != nil && m.broken == nil {
		return errors.Join(ErrNotClosed, err)
	}
	m.closed = true
	return err
}
