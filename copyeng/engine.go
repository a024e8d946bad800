package copyeng

import "context"

// Engine moves pages between host and device memory. Engines are safe for
// concurrent use.
type Engine interface {
	// Name says what carries the copies out, for reports.
	Name() string
	// Allocate gives device memory of size bytes. Its contents are undefined.
	Allocate(size uint64) (*Space, error)
	// AllocateHost gives host memory that the engine can address, of size
	// bytes, zeroed, that begins at a multiple of MinPage.
	AllocateHost(size uint64) (*Space, error)
	// LendHost makes memory of the caller a host space. It must begin at a
	// multiple of MinPage. For a GPU all of it must be pinned: allocated or
	// registered through package cuda. A *LendError says what is in the way.
	LendHost(mem []byte) (*Space, error)
	// NewQueue gives an empty queue.
	NewQueue() (Queue, error)
	// Choose says which path a batch of n pages would take, and why.
	Choose(dir Direction, pageSize, n int) Choice
	// Stats is what has been copied so far, by path.
	Stats() Stats
	// Close waits for the engine's queues and closes them. What was
	// allocated of a GPU stays to be closed by itself.
	Close() error
}

// Queue carries batches out in order. Calls on one queue take turns.
type Queue interface {
	// Copy starts a batch and returns without waiting for it. The choice
	// says which path it takes.
	Copy(b *Batch) (Choice, error)
	// Exchange starts a batch to the device and one to the host together:
	// neither waits for the other, and no page of one may be in the other.
	Exchange(in, out *Batch) (Choice, error)
	// Wait waits until everything started on the queue is done, or ctx ends;
	// then it fails and the copies go on. What is done already counts as done
	// also if ctx has ended. The error of a copy comes back
	// here if no call before has returned it.
	Wait(ctx context.Context) error
	// Close waits for the queue, for at most 30 s, and releases it.
	Close() error
}
