package tritier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// Errors of a Memory, from the engine.
type (
	// PageError is a page that an operation could not be done on.
	PageError = host.PageError
	// BatchError is a batch of which some accesses failed; the others were made.
	BatchError = host.BatchError
	// FlushError is a flush or close that could not write every page.
	FlushError = host.FlushError
	// BrokenError is a memory whose upper tiers can no longer be trusted.
	BrokenError = host.BrokenError
	// PinError is a T1 too small for what was to be pinned.
	PinError = host.PinError
	// VictimError is an access that found no room, since a page could not be written.
	VictimError = host.VictimError
)

// ErrClosed is what a closed Memory answers.
var ErrClosed = host.ErrClosed

// Access is a page access, as Config.Observe is told.
type Access struct {
	Array string
	Page  uint64 // in the array
	Op    tier.Op
}

// Memory is a set of named arrays over three tiers.
type Memory struct {
	cfg    *parsed
	vol    *volume.Volume
	t3     *tier3
	tiers  *tiers
	host   *host.Memory
	whyT1  string // why T1 is where it is
	stop   context.CancelFunc
	mu     sync.Mutex // guards arrays; taken before the engine's lock
	arrays map[string]*openArray
	closed bool
}

// Open assembles a Memory and opens its store, or makes it. ctx bounds the opening
// alone. Close the Memory, or what was written since the last Flush is lost.
func Open(ctx context.Context, cfg Config) (*Memory, error) {
	p, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &Memory{cfg: p, arrays: map[string]*openArray{}}
	// The drives' service threads live until Close, not until ctx ends.
	var life context.Context
	life, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	if m.vol, err = openStore(life, p); err != nil {
		m.stop()
		return nil, err
	}
	if err := m.assemble(); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

// assemble builds the tiers over the open store.
func (m *Memory) assemble() (err error) {
	p := m.cfg
	frames, t2, spares := int(p.T1/p.PageSize), int(p.T2/p.PageSize), int(p.Buffers/p.PageSize)
	if m.tiers, m.whyT1, err = openTiers(p, frames, t2+spares); err != nil {
		return err
	}
	if m.t3, err = newTier3(m.vol, m.tiers.t2.Bytes(), p.Timeout); err != nil {
		return err
	}
	o := host.Options{PageSize: int(p.PageSize), T1: frames, T2: t2, Spares: spares, Policy: p.policy, Seed: p.Seed,
		Retries: max(p.Retries, 0), Timeout: p.Timeout, Events: p.Events}
	if p.Observe != nil {
		o.Observe = func(array int, page uint64, op tier.Op) { p.Observe(Access{m.t3.name(array), page, op}) }
	}
	m.host, err = host.New(m.tiers, m.t3, o)
	return err
}

// Flush writes every changed page to the store and makes it durable. A *FlushError
// says what could not be.
func (m *Memory) Flush(ctx context.Context) error { return m.host.Flush(ctx) }

// Check proves the invariants of the page table and of the tiers.
func (m *Memory) Check() error { return m.host.Check() }

// Close flushes, closes the store and frees the tiers. Its error says what could
// not be written: it is lost. A second Close does nothing.
func (m *Memory) Close(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return joinClose(m.host.Close(ctx), m.release)
}

// release gives back what was opened, the last first.
func (m *Memory) release() error {
	var err error
	if m.t3 != nil {
		err = m.t3.close()
	}
	if m.tiers != nil {
		err = joinClose(err, m.tiers.Close)
	}
	err = joinClose(err, m.vol.Close)
	m.stop()
	return err
}

// ArrayInfo describes an array of a store.
type ArrayInfo struct {
	Name     string
	Element  string // float32, uint64, ..., or bytes and their number
	Size     int    // bytes of an element
	Length   uint64 // elements
	Pages    uint64
	IsOpened bool
}

// Arrays lists the arrays of the store, in order of name.
func (m *Memory) Arrays() []ArrayInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []ArrayInfo
	for _, info := range m.vol.Arrays() {
		k, err := parseKey(info.Name)
		if err != nil {
			continue // another program's
		}
		_, opened := m.arrays[k.name]
		list = append(list, ArrayInfo{Name: k.name, Element: k.element.String(), Size: k.element.size, Length: k.length, Pages: info.Pages, IsOpened: opened})
	}
	slices.SortFunc(list, func(a, b ArrayInfo) int { return compareStrings(a.Name, b.Name) })
	return list
}

// DropArray deletes an array and its contents for good. It must not be pinned;
// handles of it are unusable afterwards.
func (m *Memory) DropArray(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	key, ok := m.find(name)
	if !ok {
		return fmt.Errorf("array %q: %w", name, volume.ErrNoArray)
	}
	if a := m.arrays[name]; a != nil {
		if err := m.host.DropArray(a.base); err != nil {
			return err
		}
		delete(m.arrays, name)
		if err := m.t3.forget(a.id); err != nil {
			return err
		}
	}
	return m.vol.DeleteArray(key)
}

// find is the name under which the store keeps an array.
func (m *Memory) find(name string) (key string, ok bool) {
	for _, info := range m.vol.Arrays() {
		if k, err := parseKey(info.Name); err == nil && k.name == name {
			return info.Name, true
		}
	}
	return "", false
}
