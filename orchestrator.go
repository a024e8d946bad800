package tritier

import (
	"context"
	"fmt"
	"sync"

	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// orchestrator is who decides in a Memory, for its life: the CPU (onHost) or kernels
// (onDevice). Its methods may be called from any goroutine.
type orchestrator interface {
	// adopt makes an array of the store known.
	adopt(a *openArray, v *volume.Array) error
	// drop forgets an array's pages and closes it.
	drop(ctx context.Context, a *openArray) error
	elements(ctx context.Context, a *openArray, op tier.Op, indices []uint64, buf host.Buffer) error
	run(ctx context.Context, a *openArray, op tier.Op, first, n uint64, buf host.Buffer) error
	// pin returns a frame for each of the pages, which count from the array's first.
	pin(ctx context.Context, a *openArray, pages []uint64) ([]int32, error)
	unpin(a *openArray, pages []uint64, frames []int32) error
	// frames is T1: its address, and its bytes if the CPU reaches them.
	frames() (address uint64, bytes []byte)
	flush(ctx context.Context) error
	check() error
	// finish flushes and refuses all work after.
	finish(ctx context.Context) error
	// release frees everything and closes the store, when nothing uses it any more. all says
	// whether it did, whatever it complains of; if not, some of it stays, and release can be called again.
	release(closeStore func() error) (all bool, err error)
	describe(d *Description)
	stats() Stats
	// observed waits until Config.Observe was told of what has ended.
	observed(ctx context.Context) (Observed, error)
	// traced waits until Config.Events was.
	traced(ctx context.Context) (Traced, error)
}

// openArray is an array that the tiers know.
type openArray struct {
	key     arrayKey
	id      int
	size    uint64 // bytes of an element
	perPage uint64 // elements of a page; none lies across two
	first   uint64 // the engine's number of its first page

	mu      sync.RWMutex // held for reading by calls on the array; taken after Memory.mu, before the engine's lock
	dropped bool         // its page numbers may be another array's
}

// DroppedError is a call on an array that DropArray has deleted.
type DroppedError struct{ Array string }

// Error names the array.
func (e *DroppedError) Error() string { return fmt.Sprintf("array %q was dropped", e.Array) }

// use keeps the array from being dropped until the function that it returns is called.
func (a *openArray) use() (done func(), err error) {
	a.mu.RLock()
	if a.dropped {
		a.mu.RUnlock()
		return nil, &DroppedError{a.key.name}
	}
	return a.mu.RUnlock, nil
}

// take is how many of left elements lie on the page of element x.
func (a *openArray) take(x, left uint64) uint64 { return min(a.perPage-x%a.perPage, left) }
