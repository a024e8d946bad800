package main

import (
	"context"
	"io"
)

// interruptible makes reads of r end with ctx: a read of a terminal or of a
// pipe may wait for ever, and the operating system's read cannot be called off.
// One goroutine reads ahead, by one buffer; when ctx ends it is left behind in
// its last read, which the end of the process ends.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	i := &interruptibleReader{ctx: ctx, full: make(chan chunk), free: make(chan []byte, 2)}
	i.free <- make([]byte, stdinBuffer)
	i.free <- make([]byte, stdinBuffer)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case b := <-i.free:
				n, err := r.Read(b[:cap(b)])
				select {
				case <-ctx.Done():
					return
				case i.full <- chunk{b[:n], err}:
				}
				if err != nil {
					return
				}
			}
		}
	}()
	return i
}

const stdinBuffer = 256 << 10

// chunk is what one read gave.
type chunk struct {
	data []byte
	err  error
}

// interruptibleReader hands the chunks on; it has one reader.
type interruptibleReader struct {
	ctx  context.Context
	full chan chunk
	free chan []byte // two buffers: sends never wait
	now  chunk
	left []byte // of now, not yet given out
}

// Read implements io.Reader.
func (i *interruptibleReader) Read(p []byte) (int, error) {
	if len(i.left) == 0 {
		if i.now.err != nil {
			return 0, i.now.err
		}
		if i.now.data != nil {
			i.free <- i.now.data
		}
		select {
		case <-i.ctx.Done():
			i.now = chunk{err: i.ctx.Err()}
		case i.now = <-i.full:
		}
		i.left = i.now.data
	}
	n := copy(p, i.left)
	i.left = i.left[n:]
	if n == 0 && len(p) > 0 {
		return 0, i.now.err
	}
	return n, nil
}
