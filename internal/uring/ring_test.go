package uring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newRing makes a ring or skips, which REQUIRE=uring turns into a failure.
func newRing(t testing.TB, o Options) *Ring {
	t.Helper()
	if o.OneThread {
		runtime.LockOSThread()
		t.Cleanup(runtime.UnlockOSThread)
	}
	r, err := New(o)
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) && !strings.Contains(os.Getenv("REQUIRE"), "uring") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func tempFile(t testing.TB, size int) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	return f
}

// reapAll waits for n completions, at most 10 seconds.
func reapAll(t testing.TB, r *Ring, n int) []Completion {
	t.Helper()
	var all []Completion
	out := make([]Completion, 7) // not a power of two: partial reaps
	for deadline := time.Now().Add(10 * time.Second); len(all) < n; {
		k, err := r.Wait(out, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out[:k]...)
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d completions after 10 s", len(all), n)
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// one runs one operation to its completion.
func one(t testing.TB, r *Ring, err error) Completion {
	t.Helper()
	must(t, err)
	return reapAll(t, r, 1)[0]
}

func iovecs(bufs ...[]byte) []unix.Iovec {
	var v []unix.Iovec
	for _, b := range bufs {
		v = append(v, unix.Iovec{Base: &b[0], Len: uint64(len(b))})
	}
	return v
}

func TestReadWriteBothModes(t *testing.T) {
	for _, oneThread := range []bool{false, true} {
		r := newRing(t, Options{Entries: 8, OneThread: oneThread})
		f := tempFile(t, 1<<16)
		fd := int(f.Fd())
		data := bytes.Repeat([]byte("tier"), 1024)
		if c := one(t, r, r.Write(fd, data, 8192, 42)); c.Token != 42 || c.N != len(data) || c.Err != nil {
			t.Fatalf("write: %+v", c)
		}
		if c := one(t, r, r.Datasync(fd, 43)); c.Token != 43 || c.Err != nil {
			t.Fatalf("datasync: %+v", c)
		}
		got := make([]byte, len(data))
		if c := one(t, r, r.Read(fd, got, 8192, 44)); c.N != len(got) || !bytes.Equal(got, data) {
			t.Fatalf("read: %+v, data equal %v", c, bytes.Equal(got, data))
		}
		a, b := make([]byte, 1000), make([]byte, 3096)
		if c := one(t, r, r.ReadVec(fd, iovecs(a, b), 8192, 45)); c.N != 4096 || !bytes.Equal(append(a, b...), data) {
			t.Fatalf("vectored read: %+v", c)
		}
		if c := one(t, r, r.WriteVec(fd, iovecs(data[:4], data[4:8]), 0, 46)); c.N != 8 {
			t.Fatalf("vectored write: %+v", c)
		}
		if _, err := f.ReadAt(got[:12], 0); err != nil || string(got[:12]) != "tiertier\x00\x00\x00\x00" {
			t.Fatalf("file starts with %q, %v", got[:12], err)
		}
	}
}

func TestFallocatePunchesHole(t *testing.T) {
	r := newRing(t, Options{Entries: 2})
	f := tempFile(t, 16384)
	if _, err := f.WriteAt(bytes.Repeat([]byte{1}, 16384), 0); err != nil {
		t.Fatal(err)
	}
	c := one(t, r, r.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 8192, 1))
	if errors.Is(c.Err, unix.EOPNOTSUPP) {
		t.Skip("the file system has no holes")
	}
	must(t, c.Err)
	got := make([]byte, 16384)
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if got[4095] != 1 || got[4096] != 0 || got[12287] != 0 || got[12288] != 1 {
		t.Errorf("hole edges %v %v %v %v, want 1 0 0 1", got[4095], got[4096], got[12287], got[12288])
	}
}

func TestShortReadAndErrors(t *testing.T) {
	r := newRing(t, Options{Entries: 4})
	f := tempFile(t, 1000)
	buf := make([]byte, 4096)
	if c := one(t, r, r.Read(int(f.Fd()), buf, 0, 1)); c.N != 1000 || c.Err != nil {
		t.Errorf("read over the end: %+v, want 1000 bytes and no error", c)
	}
	if c := one(t, r, r.Read(int(f.Fd()), buf, 5000, 2)); c.N != 0 || c.Err != nil {
		t.Errorf("read behind the end: %+v, want 0 bytes and no error", c)
	}
	if c := one(t, r, r.Read(-1, buf, 0, 3)); !errors.Is(c.Err, syscall.EBADF) {
		t.Errorf("read of no file: %+v, want EBADF", c)
	}
	ro, err := os.Open(f.Name())
	must(t, err)
	defer ro.Close()
	if c := one(t, r, r.Write(int(ro.Fd()), buf, 0, 4)); !errors.Is(c.Err, syscall.EBADF) || c.N != 0 {
		t.Errorf("write to a read-only file: %+v, want EBADF", c)
	}
}

func TestFullQueue(t *testing.T) {
	r := newRing(t, Options{Entries: 4})
	f := tempFile(t, 1<<16)
	buf := make([]byte, 512)
	for i := range r.Capacity() {
		must(t, r.Read(int(f.Fd()), buf, 0, uint64(i)))
	}
	if err := r.Read(int(f.Fd()), buf, 0, 99); !errors.Is(err, ErrFull) {
		t.Fatalf("one more: %v, want ErrFull", err)
	}
	if err := r.Close(); !errors.Is(err, ErrBusy) {
		t.Fatalf("close in flight: %v, want ErrBusy", err)
	}
	must(t, r.Submit())
	if err := r.Read(int(f.Fd()), buf, 0, 99); !errors.Is(err, ErrFull) {
		t.Fatalf("submitted but not reaped: %v, want ErrFull", err)
	}
	reapAll(t, r, r.Capacity())
	must(t, r.Read(int(f.Fd()), buf, 0, 99))
	if c := reapAll(t, r, 1)[0]; c.Token != 99 {
		t.Errorf("token %d, want 99", c.Token)
	}
}

// TestWrapAgainstModel runs random reads and writes over many wraps of a tiny
// ring and compares with an array in memory; no two in flight overlap.
func TestWrapAgainstModel(t *testing.T) {
	const blocks, size, rounds, seed = 64, 512, 4000, 1
	r := newRing(t, Options{Entries: 4})
	f := tempFile(t, blocks*size)
	model := make([]byte, blocks*size)
	rng := rand.New(rand.NewPCG(seed, 0))
	type op struct {
		block int
		write bool
		buf   []byte
	}
	inFlight := map[uint64]op{}
	held := map[int]bool{}
	finish := func(c Completion) {
		o, ok := inFlight[c.Token]
		if !ok || c.Err != nil || c.N != size {
			t.Fatalf("completion %+v (known: %v, seed %d)", c, ok, seed)
		}
		want := model[o.block*size : (o.block+1)*size]
		if o.write {
			copy(want, o.buf)
		} else if !bytes.Equal(o.buf, want) {
			t.Fatalf("block %d differs from the model (seed %d)", o.block, seed)
		}
		delete(inFlight, c.Token)
		delete(held, o.block)
	}
	out := make([]Completion, 3)
	for i := range uint64(rounds) {
		o := op{block: rng.IntN(blocks), write: rng.IntN(2) == 0, buf: make([]byte, size)}
		for held[o.block] || len(inFlight) == r.Capacity() {
			n, err := r.Wait(out, time.Second)
			must(t, err)
			for _, c := range out[:n] {
				finish(c)
			}
		}
		prepare := r.Read
		if o.write {
			prepare = r.Write
			for j := range o.buf {
				o.buf[j] = byte(rng.Uint32())
			}
		}
		must(t, prepare(int(f.Fd()), o.buf, int64(o.block*size), i))
		inFlight[i], held[o.block] = o, true
		if rng.IntN(3) == 0 {
			must(t, r.Submit())
		}
		if rng.IntN(50) == 0 {
			runtime.GC() // buffers that only the ring holds must stay alive
		}
	}
	for _, c := range reapAll(t, r, len(inFlight)) {
		finish(c)
	}
}

func TestWaitTimesOut(t *testing.T) {
	r := newRing(t, Options{Entries: 2})
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	buf := make([]byte, 1)
	must(t, r.Read(pipe[0], buf, 0, 5))
	start := time.Now()
	n, err := r.Wait(make([]Completion, 1), 30*time.Millisecond)
	if took := time.Since(start); n != 0 || err != nil || took < 25*time.Millisecond || took > 5*time.Second {
		t.Fatalf("wait on an empty pipe: %d completions, %v, after %v; want none after 30 ms", n, err, took)
	}
	_, err = unix.Write(pipe[1], []byte{9})
	must(t, err)
	if c := reapAll(t, r, 1)[0]; c.N != 1 || c.Token != 5 || buf[0] != 9 {
		t.Errorf("read of the pipe: %+v, byte %d", c, buf[0])
	}
	must(t, unix.Close(pipe[1]))
}

func TestOptionsAndClose(t *testing.T) {
	for _, n := range []int{0, -1, MaxEntries + 1} {
		if _, err := New(Options{Entries: n}); err == nil {
			t.Errorf("a ring of %d entries was made", n)
		}
	}
	r := newRing(t, Options{Entries: 3})
	if r.Capacity() != 4 {
		t.Errorf("capacity %d, want 3 rounded up to 4", r.Capacity())
	}
	for _, n := range []int{0, MaxVectors + 1} {
		if err := r.ReadVec(0, make([]unix.Iovec, n), 0, 0); err == nil {
			t.Errorf("an operation with %d buffers was taken", n)
		}
	}
	must(t, r.Close())
	if err := r.Read(0, nil, 0, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := r.Wait(nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("wait after close: %v", err)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		errno    syscall.Errno
		disabled string
		want     string
	}{
		{unix.ENOSYS, "", "has no io_uring"},
		{unix.EPERM, "2", "kernel.io_uring_disabled=2"},
		{unix.EPERM, "1", "io_uring_group"},
		{unix.EPERM, "0", "seccomp"},
		{unix.EPERM, "", "seccomp"},
		{unix.ENOMEM, "0", "ulimit -l"},
	} {
		err := classify(c.errno, c.disabled)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.errno) {
			t.Errorf("%v with switch %q: %v, want an *UnsupportedError about %q", c.errno, c.disabled, err, c.want)
		}
	}
	var unsupported *UnsupportedError
	if err := classify(unix.EMFILE, "0"); errors.As(err, &unsupported) {
		t.Errorf("too many open files is taken for lack of support: %v", err)
	}
}

func BenchmarkRead4K(b *testing.B) {
	for _, oneThread := range []bool{false, true} {
		b.Run(map[bool]string{false: "any-thread", true: "one-thread"}[oneThread], func(b *testing.B) {
			r := newRing(b, Options{Entries: 32, OneThread: oneThread})
			f := tempFile(b, 1<<20)
			buf, out := make([]byte, 4096), make([]Completion, 32)
			b.ReportAllocs()
			for b.Loop() {
				for i := range 32 {
					must(b, r.Read(int(f.Fd()), buf, int64(i)*4096, 0))
				}
				for n := 0; n < 32; {
					k, err := r.Wait(out, time.Second)
					must(b, err)
					n += k
				}
			}
			b.ReportMetric(float64(b.N)*32/b.Elapsed().Seconds(), "reads/s")
		})
	}
}
