package iobench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/cuda"
)

// The memory of a mailbox: the GPU's word, the host's in a cache line of its
// own, and what the kernel says at its end.
const (
	mailboxBytes  = 4096
	gpuWordAt     = 0
	hostWordAt    = 32 * 4
	mailboxOutAt  = 1024
	mailboxLimit  = 2 * time.Second // then the kernel gives up by itself
	mailboxGrace  = 2 * time.Second
	maxRoundTrips = 1 << 20
)

// Mailbox is the time of one round trip from the GPU to a CPU thread that polls,
// and back, through pinned memory: the mean of so many rounds, 1 to 2^20. The
// latency of an I/O that a CPU serves is held against it. It takes at most four
// seconds, whatever the GPU does; ctx only keeps it from starting. It must not
// run beside another method of the bench.
func (b *Bench) Mailbox(ctx context.Context, rounds int) (trip time.Duration, err error) {
	if rounds < 1 || rounds > maxRoundTrips {
		return 0, fmt.Errorf("bench of I/O: %d round trips: give 1 to %d", rounds, maxRoundTrips)
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	mem, err := b.engine.Context().AllocHost(mailboxBytes, cuda.Portable|cuda.Mapped)
	if err != nil {
		return 0, fmt.Errorf("bench of I/O: mailbox: %w", err)
	}
	clear(mem.Bytes())
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answer(word(mem.Bytes(), gpuWordAt), word(mem.Bytes(), hostWordAt), uint32(rounds), &stop)
	}()
	err = b.mailbox(mem.DevicePtr(), rounds)
	stop.Store(true)
	<-ended // at once: it looks at stop as often as at the word
	var late *cuda.DeadlineError
	if errors.As(err, &late) {
		return 0, fmt.Errorf("bench of I/O: mailbox: %w", err) // the kernel may still use the memory
	}
	if err == nil {
		out := mem.Bytes()[mailboxOutAt:]
		if done := binary.LittleEndian.Uint64(out[8:]); done != uint64(rounds)+1 {
			err = fmt.Errorf("the host did not answer round %d of %d within %v", done, rounds, mailboxLimit)
		}
		trip = time.Duration(binary.LittleEndian.Uint64(out)) / time.Duration(rounds)
	}
	if err = errors.Join(err, mem.Free()); err != nil {
		return 0, fmt.Errorf("bench of I/O: mailbox: %w", err)
	}
	return trip, nil
}

// mailbox runs the kernel.
func (b *Bench) mailbox(at cuda.Ptr, rounds int) error {
	cfg := cuda.LaunchConfig{Grid: cuda.D1(1), Block: cuda.D1(1)}
	if err := b.kernels.Mailbox(b.stream, cfg, at, uint32(rounds), uint64(mailboxLimit), at.Add(mailboxOutAt)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mailboxLimit+mailboxGrace)
	defer cancel()
	return b.stream.Wait(ctx)
}

// answer gives every number of the GPU back to it.
func answer(from, to *uint32, rounds uint32, stop *atomic.Bool) {
	runtime.LockOSThread() // the scheduler must not put a pause into a round
	defer runtime.UnlockOSThread()
	for i := uint32(1); i <= rounds; i++ {
		for spins := 1; atomic.LoadUint32(from) != i; spins++ {
			if stop.Load() {
				return
			}
			if spins%answerSpins == 0 {
				runtime.Gosched() // the GPU may be software, on the same processor
			}
		}
		atomic.StoreUint32(to, i)
	}
}

// answerSpins are about ten microseconds, several times what a GPU takes.
const answerSpins = 1 << 14
