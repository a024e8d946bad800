package tritier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tritier/tritier/internal/gate"
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
	// BrokenError is a memory that takes no more work: its upper tiers can no longer be trusted,
	// or a drive neither answers nor can be reset, and Close writes what the others take.
	BrokenError = host.BrokenError
	// PinError is a T1 too small for what was to be pinned.
	PinError = host.PinError
	// VictimError is an access that found no room, since a page could not be written.
	VictimError = host.VictimError
)

// ErrClosed is what a closed Memory answers.
var ErrClosed = host.ErrClosed

// ErrNotClosed is a Close that left the Memory open: its context ended first, or kernels or a
// Watch still run.
var ErrNotClosed = host.ErrNotClosed

// Access is a page access, as Config.Observe is told.
type Access struct {
	Array string
	Page  uint64 // in the array
	Op    tier.Op
}

// Memory is a set of named arrays over three tiers.
type Memory struct {
	cfg      *parsed
	vol      *volume.Volume
	eng      orchestrator
	stop     context.CancelFunc
	mu       gate.Gate // guards arrays; taken before the engine's lock
	arrays   map[string]*openArray
	closed   bool        // takes no work
	released bool        // has given everything back
	gone     atomic.Bool // closed, for whoever must not wait for mu
}

// open says that the Memory takes calls, or ErrClosed: before all else, so that it does
// not hang on the engine what a closed Memory answers.
func (m *Memory) open() error {
	if m.gone.Load() {
		return ErrClosed
	}
	return nil
}

// enter waits for the call on arrays that is under way, or a Close, or the end of ctx.
func (m *Memory) enter(ctx context.Context) error {
	if err := m.mu.Enter(ctx); err != nil {
		return fmt.Errorf("another call has not ended: %w", err)
	}
	return nil
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
	m := &Memory{cfg: p, mu: gate.New(), arrays: map[string]*openArray{}}
	// The drives' service threads live until Close, not until ctx ends.
	var life context.Context
	life, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	if m.vol, err = openStore(life, p); err != nil {
		m.stop()
		return nil, err
	}
	if m.eng, err = m.orchestrate(ctx); err != nil {
		return nil, errors.Join(p.unmake(err), m.release())
	}
	return m, nil
}

// orchestrate opens the engine that the configuration wants.
func (m *Memory) orchestrate(ctx context.Context) (orchestrator, error) {
	if m.cfg.Engine == EngineGPU {
		o, err := openOnDevice(ctx, m.cfg, m.vol)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	o, err := openOnHost(m.cfg, m.vol)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Flush writes every changed page to the store and makes it durable. A *FlushError
// says what could not be. With engine gpu, what kernels write meanwhile need not be
// covered, and a page of which a write was not answered in time is not written again
// before the drive has answered (gpu.ErrFenced): its bytes stay in T1 or T2, and another
// Flush writes them then.
func (m *Memory) Flush(ctx context.Context) error {
	if err := m.open(); err != nil {
		return err
	}
	return m.eng.flush(ctx)
}

// Check proves the invariants of the page table and of the tiers. No kernel of the
// caller may run.
func (m *Memory) Check() error {
	if err := m.open(); err != nil {
		return err
	}
	return m.eng.check()
}

// Close flushes, closes the store and frees the tiers. A drive that leaves writes unanswered is
// reset, and they are written then, unless the reset fails, which costs no other drive's pages;
// what it goes on to leave unanswered costs a few time-outs in all. Its error says what could not be written: it is lost, and
// all else is freed, but for what a drive or kernels may still use, which another Close frees. When ctx
// ends before all was written, or kernels or a Watch still run, the Memory stays open and Close can be called again: until then nothing may launch
// kernels with its arrays, whose I/O may have ended. A Close after one that closed
// the Memory does nothing. Every other call answers ErrClosed then, but for those without
// an error, and AccessError.
func (m *Memory) Close(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return errors.Join(ErrNotClosed, err)
	}
	defer m.mu.Leave()
	if m.released {
		return nil
	}
	var err error
	if !m.closed {
		if err = m.eng.finish(ctx); errors.Is(err, ErrNotClosed) {
			return err
		}
		m.closed = true
		m.gone.Store(true)
	}
	return joinClose(err, m.release)
}

// release gives back what was opened, the last first. When kernels or drives still use
// something, it stays, and release can be called again.
func (m *Memory) release() error {
	closeStore := m.vol.Close
	if m.eng == nil {
		return joinClose(closeStore(), m.halt)
	}
	all, err := m.eng.release(closeStore)
	if !all {
		return err
	}
	return joinClose(err, m.halt)
}

// halt ends the drives' service threads.
func (m *Memory) halt() error {
	m.stop()
	m.released = true
	return nil
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

// Arrays lists the arrays of the store, in order of name; after Close, those that it
// had then.
func (m *Memory) Arrays() []ArrayInfo {
	m.mu.Lock()
	defer m.mu.Leave()
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
// handles of it are unusable afterwards. With engine gpu an array is kept, and the error
// is gpu.ErrFenced, while a write of it that was not answered in time may still be
// carried out: a Flush that succeeds ends that.
func (m *Memory) DropArray(ctx context.Context, name string) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Leave()
	if m.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	key, ok := m.find(name)
	if !ok {
		return fmt.Errorf("array %q: %w", name, volume.ErrNoArray)
	}
	if a := m.arrays[name]; a != nil {
		if err := m.drop(ctx, a); err != nil {
			return err
		}
	}
	return m.vol.DeleteArray(key)
}

// drop forgets an open array, once no call on it is under way.
func (m *Memory) drop(ctx context.Context, a *openArray) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := m.eng.drop(ctx, a); err != nil {
		return err
	}
	a.dropped = true
	delete(m.arrays, a.key.name)
	return nil
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
