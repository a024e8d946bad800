package soft

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// fileModes are the ways to reach a file that every test here covers.
var fileModes = []struct {
	name string
	o    FileOptions
}{
	{"auto", FileOptions{}},
	{"uring-cached", FileOptions{Engine: EngineUring, Direct: DirectOff}},
	{"sync-direct", FileOptions{Engine: EngineSync, Workers: 3}},
	{"sync-cached", FileOptions{Engine: EngineSync, Direct: DirectOff, Workers: 1}},
}

// eachMode runs f on a fresh file of size bytes in every mode.
func eachMode(t *testing.T, size int64, f func(t *testing.T, b *File, ch Channel)) {
	for _, m := range fileModes {
		t.Run(m.name, func(t *testing.T) {
			if ok, why := supported(m.o); !ok {
				t.Skip(why)
			}
			m.o.Size = size
			b := openFile(t, filepath.Join(t.TempDir(), "disk"), m.o)
			f(t, b, openChannel(t, b))
		})
	}
}

func supported(o FileOptions) (bool, string) {
	if o.Engine != EngineUring {
		return true, ""
	}
	_, err := OpenFile(os.DevNull, FileOptions{Engine: EngineUring})
	return err == nil || !strings.Contains(err.Error(), "uring: not usable"), "no io_uring here"
}

func openFile(t testing.TB, path string, o FileOptions) *File {
	t.Helper()
	b, err := OpenFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func openChannel(t testing.TB, b *File) Channel {
	t.Helper()
	runtime.LockOSThread() // as a service thread is
	ch, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer runtime.UnlockOSThread()
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
	})
	return ch
}

// finish starts ops and reaps them all, within 10 seconds.
func finish(t testing.TB, ch Channel, ops ...*Op) {
	t.Helper()
	left := map[*Op]bool{}
	for _, op := range ops {
		if !ch.Start(op) {
			left[op] = true
		}
	}
	var done []*Op
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0; {
		ch.Submit()
		done = ch.Reap(done[:0])
		for _, op := range done {
			if !left[op] {
				t.Fatalf("operation %+v came back twice or was never started", op)
			}
			delete(left, op)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d operations did not finish", len(left), len(ops))
		}
	}
}

func transfer(kind OpKind, off int64, bufs ...[]byte) *Op {
	op := &Op{Kind: kind, Offset: off}
	for _, b := range bufs {
		op.Segments = append(op.Segments, segmentOf(b))
		op.Length += int64(len(b))
	}
	return op
}

func wantStatus(t testing.TB, op *Op, want libnvm.Status) {
	t.Helper()
	if op.Status != want {
		t.Fatalf("status %v, want %v", op.Status, want)
	}
}

// TestFileAgainstModel runs random operations, many at once, with segments of
// odd alignment, and compares with an array in memory.
func TestFileAgainstModel(t *testing.T) {
	const blocks, block, seed = 64, 4096, 3
	eachMode(t, blocks*block, func(t *testing.T, b *File, ch Channel) {
		t.Logf("%s, seed %d", b.Describe(), seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		model := make([]byte, blocks*block)
		memory := alignedBuffer(blocks*block+8192, 4096)
		for range 150 {
			var ops []*Op
			var bufs [][]byte
			next := 0
			for at := rng.IntN(4); at < blocks; at += 1 + rng.IntN(6) {
				n := min(1+rng.IntN(5), blocks-at)
				skew := []int{0, 4, 512}[rng.IntN(3)]
				buf := memory[next+skew : next+skew+n*block : next+skew+n*block]
				next += n*block + 512
				if next > blocks*block {
					break
				}
				cut := []int{n * block, 4, 512, block}[rng.IntN(4)]
				op := transfer(OpKind(rng.IntN(4)), int64(at*block), buf[:cut])
				if cut < n*block {
					op = transfer(op.Kind, op.Offset, buf[:cut], buf[cut:])
				}
				op.FUA = rng.IntN(8) == 0
				if op.Kind == OpFlush {
					op = &Op{Kind: OpFlush}
				}
				if op.Kind == OpWrite {
					fillRandom(rng, buf)
				}
				ops, bufs = append(ops, op), append(bufs, buf)
				at += n
			}
			finish(t, ch, ops...)
			for i, op := range ops {
				wantStatus(t, op, libnvm.StatusSuccess)
				want := model[op.Offset : op.Offset+op.Length]
				switch op.Kind {
				case OpRead:
					if !bytes.Equal(bufs[i], want) {
						t.Fatalf("read at %d of %d bytes differs from the model", op.Offset, op.Length)
					}
				case OpWrite:
					copy(want, bufs[i])
				case OpWriteZeroes:
					clear(want)
				}
			}
		}
	})
}

func fillRandom(rng *rand.Rand, p []byte) {
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
}

// TestFileManyAtOnce starts more operations than the ring has entries.
func TestFileManyAtOnce(t *testing.T) {
	const n = 3*uringEntries + 1
	eachMode(t, n*512, func(t *testing.T, b *File, ch Channel) {
		memory := alignedBuffer(n*512, 4096)
		var writes, reads []*Op
		for i := range n {
			p := memory[i*512 : (i+1)*512]
			p[0], p[1] = byte(i), byte(i>>8)
			writes = append(writes, transfer(OpWrite, int64(i*512), p))
		}
		finish(t, ch, writes...)
		clear(memory)
		for i := range n {
			reads = append(reads, transfer(OpRead, int64(i*512), memory[i*512:(i+1)*512]))
		}
		finish(t, ch, reads...)
		for i := range n {
			wantStatus(t, writes[i], libnvm.StatusSuccess)
			wantStatus(t, reads[i], libnvm.StatusSuccess)
			if p := memory[i*512:]; p[0] != byte(i) || p[1] != byte(i>>8) {
				t.Fatalf("block %d holds %d %d", i, p[0], p[1])
			}
		}
	})
}

// TestFileTruncatedBehindOurBack: what is no longer there must not read as zeroes.
func TestFileTruncatedBehindOurBack(t *testing.T) {
	eachMode(t, 64<<10, func(t *testing.T, b *File, ch Channel) {
		if err := os.Truncate(b.path, 10<<10); err != nil {
			t.Fatal(err)
		}
		buf := alignedBuffer(8192, 4096)
		inside, across, behind := transfer(OpRead, 0, buf), transfer(OpRead, 8192, buf), transfer(OpRead, 32<<10, buf)
		finish(t, ch, inside)
		finish(t, ch, across)
		finish(t, ch, behind)
		wantStatus(t, inside, libnvm.StatusSuccess)
		wantStatus(t, behind, libnvm.StatusUnrecoveredRead)
		if across.Status.OK() {
			t.Errorf("a read over the end gives %v", across.Status)
		}
	})
}

func TestFileNoSpace(t *testing.T) {
	var old unix.Rlimit
	eachMode(t, 1<<20, func(t *testing.T, b *File, ch Channel) {
		// A size limit makes writes fail as a full or over-quota file system does.
		if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 8192, Max: old.Max}); err != nil {
			t.Skip(err)
		}
		defer func() {
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
				t.Error(err)
			}
		}()
		op := transfer(OpWrite, 64<<10, alignedBuffer(8192, 4096))
		finish(t, ch, op)
		wantStatus(t, op, libnvm.StatusCapacityExceeded)
	})
}

func TestFileReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openFile(t, path, FileOptions{ReadOnly: true})
	ch := openChannel(t, b)
	buf := alignedBuffer(4096, 4096)
	read, write, flush := transfer(OpRead, 4096, buf), transfer(OpWrite, 0, buf), &Op{Kind: OpFlush}
	finish(t, ch, write, flush)
	finish(t, ch, read)
	wantStatus(t, write, libnvm.StatusWriteProtected)
	wantStatus(t, flush, libnvm.StatusSuccess)
	wantStatus(t, read, libnvm.StatusSuccess)
	if buf[0] != 7 {
		t.Error("read-only file was not read")
	}
	// A second reader may open it, a writer may not.
	openFile(t, path, FileOptions{ReadOnly: true})
	var inUse *FileInUseError
	if _, err := OpenFile(path, FileOptions{}); !errors.As(err, &inUse) {
		t.Errorf("a writer beside readers: %v, want *FileInUseError", err)
	}
}

func TestFileLockAndSizes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	b := openFile(t, path, FileOptions{Size: 10000, BlockSize: 4096})
	if b.Size() != 8192 {
		t.Errorf("size %d, want 10000 rounded down to 8192", b.Size())
	}
	var inUse *FileInUseError
	if _, err := OpenFile(path, FileOptions{}); !errors.As(err, &inUse) {
		t.Errorf("second open: %v, want *FileInUseError", err)
	}
	for name, c := range map[string]struct {
		path string
		o    FileOptions
	}{
		"missing file":      {filepath.Join(dir, "none"), FileOptions{}},
		"directory":         {dir, FileOptions{}},
		"character device":  {os.DevNull, FileOptions{}},
		"odd block size":    {filepath.Join(dir, "x"), FileOptions{Size: 1 << 20, BlockSize: 1000}},
		"smaller than size": {os.DevNull, FileOptions{Size: 1 << 20, ReadOnly: true}},
		"less than a block": {filepath.Join(dir, "y"), FileOptions{Size: 100}},
	} {
		if _, err := OpenFile(c.path, c.o); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
}

// TestFlushFailureSticks: the kernel reports a lost write once, so a later
// success of fdatasync proves nothing.
func TestFlushFailureSticks(t *testing.T) {
	b := openFile(t, filepath.Join(t.TempDir(), "disk"), FileOptions{Size: 8192})
	f := &fileOp{file: b}
	first, second, third := &Op{Kind: OpFlush}, &Op{Kind: OpFlush}, transfer(OpWrite, 0, alignedBuffer(4096, 4096))
	if f.begin(first) || !f.complete(0, unix.EIO) {
		t.Fatal("the failed sync did not finish the flush")
	}
	wantStatus(t, first, libnvm.StatusWriteFault)
	ch := openChannel(t, b)
	third.FUA = true
	finish(t, ch, second, third)
	wantStatus(t, second, libnvm.StatusWriteFault)
	wantStatus(t, third, libnvm.StatusWriteFault)
}

// TestFileOpSteps drives the state machine with results that a healthy kernel
// rarely gives.
func TestFileOpSteps(t *testing.T) {
	b := openFile(t, filepath.Join(t.TempDir(), "disk"), FileOptions{Size: 1 << 20, Direct: DirectOff})
	buf := alignedBuffer(8192, 4096)
	type result struct {
		n    int
		err  error
		next reqKind // what is asked for when the result arrives
	}
	for _, c := range []struct {
		name  string
		op    *Op
		steps []result
		want  libnvm.Status
	}{
		{"short write goes on", transfer(OpWrite, 0, buf), []result{{4096, nil, reqWrite}, {4096, nil, reqWrite}}, 0},
		{"interrupted read", transfer(OpRead, 0, buf), []result{{0, unix.EINTR, reqRead}, {8192, nil, reqRead}}, 0},
		{"read that ends", transfer(OpRead, 0, buf), []result{{4096, nil, reqRead}, {0, nil, reqRead}}, libnvm.StatusUnrecoveredRead},
		{"write that moves nothing", transfer(OpWrite, 0, buf), []result{{0, nil, reqWrite}}, libnvm.StatusWriteFault},
		{"more than asked", transfer(OpRead, 0, buf), []result{{8193, nil, reqRead}}, libnvm.StatusUnrecoveredRead},
		{"read error", transfer(OpRead, 0, buf), []result{{0, unix.EIO, reqRead}}, libnvm.StatusUnrecoveredRead},
		{"write error", transfer(OpWrite, 0, buf), []result{{0, unix.EIO, reqWrite}}, libnvm.StatusWriteFault},
		{"full", transfer(OpWrite, 0, buf), []result{{0, unix.ENOSPC, reqWrite}}, libnvm.StatusCapacityExceeded},
		{"fua syncs", func() *Op { o := transfer(OpWrite, 0, buf); o.FUA = true; return o }(),
			[]result{{8192, nil, reqWrite}, {0, nil, reqSync}}, 0},
		{"discard error", &Op{Kind: OpDiscard, Length: 4096}, []result{{0, unix.EIO, reqFallocate}}, libnvm.StatusWriteFault},
		{"zero range misaligned", &Op{Kind: OpWriteZeroes, Length: 300 << 10}, []result{{0, unix.EINVAL, reqFallocate},
			{200 << 10, nil, reqWrite}, {100 << 10, nil, reqWrite}}, 0},
		{"no zero range, no holes", &Op{Kind: OpWriteZeroes, Length: 4096, FUA: true}, []result{{0, unix.EOPNOTSUPP, reqFallocate},
			{0, unix.EOPNOTSUPP, reqFallocate}, {4096, nil, reqWrite}, {0, nil, reqSync}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fileOp{file: b}
			if f.begin(c.op) {
				t.Fatal("finished before the first request")
			}
			for i, r := range c.steps {
				if f.next != r.next {
					t.Fatalf("step %d asks for request %d, want %d", i, f.next, r.next)
				}
				if done := f.complete(r.n, r.err); done != (i == len(c.steps)-1) {
					t.Fatalf("step %d: finished %v", i, done)
				}
			}
			wantStatus(t, c.op, c.want)
		})
	}
	if op := (&Op{Kind: OpDiscard, Length: 4096}); !(&fileOp{file: b}).begin(op) || !op.Status.OK() {
		t.Error("a discard on a file without holes is not advice")
	}
}

// TestAdvance cuts segments at any place: the bytes that are left are the right ones.
func TestAdvance(t *testing.T) {
	data := make([]byte, 100)
	for i := range data {
		data[i] = byte(i)
	}
	for n := range len(data) + 1 {
		rest := advance([]unix.Iovec{segmentOf(data[:40]), segmentOf(data[40:45]), segmentOf(data[45:])}, uint64(n))
		var got []byte
		for i := range rest {
			got = append(got, segmentBytes(&rest[i])...)
		}
		if !bytes.Equal(got, data[n:]) {
			t.Fatalf("after %d bytes: %d left, first %v; want %d", n, len(got), got[:min(3, len(got))], len(data)-n)
		}
	}
}

// TestPunchedHole: discarded space is given back and reads as zeroes.
func TestPunchedHole(t *testing.T) {
	eachMode(t, 1<<20, func(t *testing.T, b *File, ch Channel) {
		buf := alignedBuffer(1<<20, 4096)
		for i := range buf {
			buf[i] = 1
		}
		write := transfer(OpWrite, 0, buf)
		write.FUA = true
		finish(t, ch, write)
		wantStatus(t, write, libnvm.StatusSuccess)
		before := allocated(t, b.path)
		discard := &Op{Kind: OpDiscard, Offset: 4096, Length: 512 << 10}
		finish(t, ch, discard)
		wantStatus(t, discard, libnvm.StatusSuccess)
		if b.noPunch.Load() {
			t.Skip("the file system has no holes")
		}
		if after := allocated(t, b.path); after > before-256<<10 {
			t.Errorf("%d bytes on disk after the discard, %d before", after, before)
		}
		read := transfer(OpRead, 0, buf)
		finish(t, ch, read)
		wantStatus(t, read, libnvm.StatusSuccess)
		if buf[4095] != 1 || buf[4096] != 0 || buf[4095+512<<10] != 0 || buf[4096+512<<10] != 1 {
			t.Error("the hole has the wrong edges")
		}
	})
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}
