package pieces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tritier/tritier/cuda"
)

// Piece is a part of the frames and its place in a buffer.
type Piece struct {
	Frame  uint64 // bytes from the base of the frames
	Buffer int64  // bytes from the base of the buffer
	Bytes  int    // at most MaxBytes
}

const (
	// MaxBytes bounds one piece.
	MaxBytes = 2 << 20

	stageBytes = 8 << 20 // of pinned memory, through which ordinary memory goes
	listLength = 1 << 16 // pieces of one launch
	maxBlocks  = 64      // enough to fill PCIe with loads; the rest of the GPU stays free
)

// RangeError is a piece that leaves the frames or the buffer. Nothing was moved.
type RangeError struct {
	Number int // of the piece in its list
	Piece  Piece
	Frames uint64 // bytes
	Buffer int64  // bytes
}

// Error names the piece and the limits.
func (e *RangeError) Error() string {
	return fmt.Sprintf("piece %d: %d bytes at %d of %d of the frames, and at %d of %d of the buffer",
		e.Number, e.Piece.Bytes, e.Piece.Frame, e.Frames, e.Piece.Buffer, e.Buffer)
}

// Mover moves pieces of one range of frames. Its methods may be called from any
// goroutine; they take turns, and each returns when the bytes have arrived.
type Mover struct {
	ctx     *cuda.Context
	frames  cuda.Ptr
	size    uint64
	timeout time.Duration
	k       *kernels
	stream  *cuda.Stream
	list    *cuda.HostMemory
	stage   *cuda.HostMemory
	begun   *cuda.Event // of a caller's stream, and
	done    *cuda.Event // of the mover's: each waits for the other

	mu     sync.Mutex // guards what follows, list and stage
	closed bool
}

// ErrClosed is what a closed Mover answers.
var ErrClosed = errors.New("the mover of pieces is closed")

// New makes a mover for frames of size bytes. timeout bounds each wait for the GPU.
func New(ctx *cuda.Context, frames cuda.Ptr, size uint64, timeout time.Duration) (*Mover, error) {
	m := &Mover{ctx: ctx, frames: frames, size: size, timeout: timeout}
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

func (m *Mover) open() (err error) {
	if m.k, err = loadKernels(m.ctx); err != nil {
		return err
	}
	if m.stream, err = m.ctx.NewStream(); err != nil {
		return err
	}
	if m.list, err = m.ctx.AllocHost(listLength*uint64(pieceBytes), 0); err != nil {
		return err
	}
	if m.stage, err = m.ctx.AllocHost(stageBytes, 0); err != nil {
		return err
	}
	if m.begun, err = m.ctx.NewEvent(false); err != nil {
		return err
	}
	m.done, err = m.ctx.NewEvent(false)
	return err
}

// Close releases the mover. It waits for nothing: no call may be under way.
func (m *Mover) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.release()
}

func (m *Mover) release() error {
	var errs []error
	for _, c := range []interface{ Close() error }{m.stream, m.begun, m.done, m.list, m.stage} {
		errs = append(errs, closeUnlessNil(c))
	}
	if m.k != nil {
		errs = append(errs, m.k.Close())
	}
	return errors.Join(errs...)
}

func closeUnlessNil(c interface{ Close() error }) error {
	switch v := c.(type) {
	case *cuda.Stream:
		if v == nil {
			return nil
		}
	case *cuda.Event:
		if v == nil {
			return nil
		}
	case *cuda.HostMemory:
		if v == nil {
			return nil
		}
	}
	return c.Close()
}

// Load copies pieces of the frames to dst, ordinary memory.
func (m *Mover) Load(dst []byte, list []Piece) error { return m.staged(dst, list, true) }

// Store copies pieces of src, ordinary memory, to the frames. Of pieces that overlap
// in the frames any may win.
func (m *Mover) Store(src []byte, list []Piece) error { return m.staged(src, list, false) }

// LoadDevice copies pieces of the frames to size bytes of GPU memory at dst, after
// what the stream holds already; what is put into it later sees them.
func (m *Mover) LoadDevice(dst cuda.Ptr, size int64, s *cuda.Stream, list []Piece) error {
	return m.direct(dst, size, s, list, true)
}

// StoreDevice copies pieces of GPU memory to the frames, after what the stream holds.
func (m *Mover) StoreDevice(src cuda.Ptr, size int64, s *cuda.Stream, list []Piece) error {
	return m.direct(src, size, s, list, false)
}

// check refuses lists that reach outside.
func (m *Mover) check(list []Piece, buffer int64) error {
	for i, p := range list {
		if p.Bytes <= 0 || p.Bytes > MaxBytes || uint64(p.Bytes) > m.size || p.Frame > m.size-uint64(p.Bytes) ||
			p.Buffer < 0 || p.Buffer > buffer-int64(p.Bytes) {
			return &RangeError{i, p, m.size, buffer}
		}
	}
	return nil
}

// staged moves pieces through pinned memory, a part at a time.
func (m *Mover) staged(buf []byte, list []Piece, load bool) error {
	if err := m.check(list, int64(len(buf))); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	stage := m.stage.Bytes()
	for len(list) > 0 {
		n, at := 0, [2]int{}
		for ; n < min(len(list), listLength); n++ {
			at[0] = align(at[1], list[n].Bytes)
			if at[1] = at[0] + list[n].Bytes; at[1] > len(stage) {
				break
			}
			m.put(n, list[n], int64(at[0]))
			if !load {
				copy(stage[at[0]:at[1]], buf[list[n].Buffer:])
			}
		}
		if err := m.launch(m.stage.DevicePtr(), n, load); err != nil {
			return err
		}
		for i, end := 0, 0; load && i < n; i++ {
			from := align(end, list[i].Bytes)
			end = from + list[i].Bytes
			copy(buf[list[i].Buffer:list[i].Buffer+int64(list[i].Bytes)], stage[from:end])
		}
		list = list[n:]
	}
	return nil
}

// align is where a piece of n bytes that comes behind at is put: whole words stay
// whole words, up to 16 bytes.
func align(at, n int) int {
	a := min(n&-n, 16)
	return (at + a - 1) &^ (a - 1)
}

func (m *Mover) direct(buf cuda.Ptr, size int64, s *cuda.Stream, list []Piece, load bool) error {
	if s != nil && !s.Context().Same(m.ctx) {
		return errors.New("the stream is of another context than T1's memory")
	}
	if err := m.check(list, size); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if s != nil {
		if err := errors.Join(m.begun.Record(s), m.stream.WaitEvent(m.begun)); err != nil {
			return err
		}
	}
	for len(list) > 0 {
		n := min(len(list), listLength)
		for i, p := range list[:n] {
			m.put(i, p, p.Buffer)
		}
		if err := m.launch(buf, n, load); err != nil {
			return err
		}
		list = list[n:]
	}
	if s == nil {
		return nil
	}
	return errors.Join(m.done.Record(m.stream), s.WaitEvent(m.done))
}

// launch moves the first n pieces of the list and waits.
func (m *Mover) launch(buf cuda.Ptr, n int, load bool) error {
	flag := uint32(0)
	if load {
		flag = 1
	}
	blocks := min((n+blockThreads-1)/blockThreads, maxBlocks)
	cfg := cuda.LaunchConfig{Grid: cuda.D1(uint32(max(blocks, min(n, maxBlocks)))), Block: cuda.D1(blockThreads)}
	if err := m.k.MovePieces(m.stream, cfg, m.frames, buf, m.list.DevicePtr(), uint32(n), flag); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	return m.stream.Wait(ctx)
}
