package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fifo makes a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// soon runs f, which must end within seconds.
func soon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for ever")
	}
}

// TestOpenEnds: the wait for a FIFO's writer ends with the context.
func TestOpenEnds(t *testing.T) {
	path := fifo(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	soon(t, func() {
		_, err := OpenContext(ctx, path, Options{})
		if te, ok := err.(*Error); !ok || te.Path != path || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if _, err = OpenContext(ctx, path, Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the context's end: %v", err)
		}
	})
}

// TestReadEnds: a read that waits for a FIFO's writer ends with the context,
// within detection and after it.
func TestReadEnds(t *testing.T) {
	for _, head := range []int{0, headBytes} {
		path := fifo(t)
		w, err := os.OpenFile(path, os.O_RDWR, 0) // needs no reader
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in which a busy machine reads some
		defer cancel()
		go func() { _, _ = io.WriteString(w, strings.Repeat("1\n", head)) }() // ends with w
		soon(t, func() {
			var n int
			r, err := OpenContext(ctx, path, Options{})
			if err == nil {
				var recs []Record
				recs, err = readAll(t, r, 4096)
				n = len(recs)
				_ = r.Close()
			}
			if te, ok := err.(*Error); !ok || te.Path != path || !errors.Is(err, context.DeadlineExceeded) || n > head || head > 0 && n == 0 {
				t.Errorf("%d records of %d, then %v", n, head, err)
			}
		})
	}
}

// TestLateWriter: before its first writer a FIFO is not at its end.
func TestLateWriter(t *testing.T) {
	path := fifo(t)
	go func() {
		time.Sleep(50 * time.Millisecond)
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 3 {
			time.Sleep(30 * time.Millisecond)
			fmt.Fprintln(w, i)
		}
		_ = w.Close()
	}()
	soon(t, func() {
		r, err := Open(path, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		if got, err := readAll(t, r, 10); len(got) != 3 || err != io.EOF {
			t.Errorf("%d records, %v", len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPipeReadBefore: what a shell's <(command) leaves behind after one reader.
func TestPipeReadBefore(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	soon(t, func() {
		_, err := Open(fmt.Sprintf("/dev/fd/%d", r.Fd()), Options{})
		if err == nil || !strings.Contains(err.Error(), "read before") {
			t.Error(err)
		}
	})
}
