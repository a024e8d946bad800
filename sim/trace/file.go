package trace

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// file is an open trace file whose waits end with a context: reads of pipes and
// terminals, and the wait for a pipe's first writer.
type file struct {
	*os.File
	ctx  context.Context
	stop func() bool // ends the watch over ctx
}

// openFile opens path without waiting; size is -1 if it is not a regular file.
func openFile(ctx context.Context, path string) (f *file, size int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	// A plain open of a FIFO waits for a writer in the kernel, where nothing
	// but a signal's default action reaches it.
	o, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	f = &file{File: o, ctx: ctx}
	// A deadline in the past ends reads that wait, and fails for files whose
	// reads do not wait: both are as they should be.
	f.stop = context.AfterFunc(ctx, func() { _ = o.SetReadDeadline(time.Unix(1, 0)) })
	st, err := o.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = errors.New("is a directory; name a trace file")
	case st.Mode().IsRegular():
		return f, st.Size(), nil
	case st.Mode()&os.ModeNamedPipe != 0:
		err = f.waitWriter()
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, -1, nil
}

// waitWriter waits until a FIFO has data or has had a writer: before that, a
// read finds its end at once.
func (f *file) waitWriter() error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var perr error
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		var n int
		for n, perr = unix.Poll(p, 0); perr == unix.EINTR; n, perr = unix.Poll(p, 0) {
		}
		return n > 0 || perr != nil
	})
	return f.cause(errors.Join(err, perr))
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.cause(err)
}

// cause is err, or the context's error if that is why a wait ended.
func (f *file) cause(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && f.ctx.Err() != nil {
		return f.ctx.Err()
	}
	return err
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.stop()
	return f.File.Close()
}
