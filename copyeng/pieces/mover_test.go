package pieces_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/copyeng/pieces"
	"github.com/tritier/tritier/copyeng/pieces/piecesfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
)

const frameBytes = 1 << 20

// context is that of a GPU if there is one, and of a software GPU.
func eachContext(t *testing.T, f func(t *testing.T, ctx *cuda.Context, fake *cudafake.GPU)) {
	t.Run("fake", func(t *testing.T) {
		fake := cudafake.New()
		piecesfake.Register(fake)
		d, err := cuda.OpenBackend(fake)
		if err != nil {
			t.Fatal(err)
		}
		onDevice(t, d, func(t *testing.T, ctx *cuda.Context) { f(t, ctx, fake) })
		if l := fake.Leaks(); len(l) > 0 {
			t.Errorf("leaks: %q", l)
		}
		if v := fake.Violations(); len(v) > 0 {
			t.Errorf("violations: %q", v)
		}
	})
	t.Run("gpu", func(t *testing.T) {
		d, err := cuda.Open()
		if err != nil && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Fatal(err)
		}
		if err != nil {
			t.Skip(err)
		}
		onDevice(t, d, func(t *testing.T, ctx *cuda.Context) { f(t, ctx, nil) })
	})
}

func onDevice(t *testing.T, d *cuda.Driver, f func(t *testing.T, ctx *cuda.Context)) {
	dev, err := d.Device("0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := dev.Retain()
	if err != nil {
		t.Fatal(err)
	}
	f(t, ctx)
	if err := ctx.Close(); err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// rig is a mover with frames of random bytes, which want holds.
type rig struct {
	*pieces.Mover
	ctx    *cuda.Context
	stream *cuda.Stream
	frames *cuda.DeviceMemory
	want   []byte
	rng    *rand.Rand
}

func newRig(t *testing.T, ctx *cuda.Context) *rig {
	t.Helper()
	r := &rig{ctx: ctx, want: make([]byte, frameBytes)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r.rng = rand.New(rand.NewPCG(seed, 0))
	fill(r.rng, r.want)
	var err error
	if r.frames, err = ctx.Alloc(frameBytes); err != nil {
		t.Fatal(err)
	}
	if r.stream, err = ctx.NewStream(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.stream.CopyToDevice(r.frames.Ptr(), r.want), r.stream.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if r.Mover, err = pieces.New(ctx, r.frames.Ptr(), frameBytes, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Mover.Close(), r.stream.Close(), r.frames.Close()); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	return r
}

func fill(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// lists are pieces of every alignment and length, which do not overlap on either side.
func (r *rig) lists(size int) [][]pieces.Piece {
	var all [][]pieces.Piece
	for _, most := range []int{1, 8, 16, 63, 65, 300, 5000, 70000} {
		var list []pieces.Piece
		at := r.rng.IntN(33)
		for {
			n := 1 + r.rng.IntN(most)
			if r.rng.IntN(2) == 0 {
				n, at = (n+15)&^15, (at+15)&^15 // the wide ways
			}
			if at+n > min(size, frameBytes) {
				break
			}
			list = append(list, pieces.Piece{Frame: uint64(at), Buffer: int64(at), Bytes: n})
			if at += n; most < 100 {
				at += r.rng.IntN(size / 2000)
			}
		}
		for i := range list { // one shift for all keeps them apart
			list[i].Buffer += int64(most % 7)
		}
		r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		all = append(all, list)
	}
	return append(all, nil)
}

// TestHostBuffers: what is loaded is what the frames hold, and nothing else changes.
func TestHostBuffers(t *testing.T) {
	eachContext(t, func(t *testing.T, ctx *cuda.Context, _ *cudafake.GPU) {
		r := newRig(t, ctx)
		for _, list := range r.lists(frameBytes) {
			buf := make([]byte, frameBytes+16)
			fill(r.rng, buf)
			expect := bytes.Clone(buf)
			for _, p := range list {
				copy(expect[p.Buffer:p.Buffer+int64(p.Bytes)], r.want[p.Frame:])
			}
			if err := r.Load(buf, list); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(buf, expect) {
				t.Fatalf("%d pieces of up to %d bytes were loaded wrongly", len(list), longest(list))
			}
			fill(r.rng, buf)
			for _, p := range list {
				copy(r.want[p.Frame:p.Frame+uint64(p.Bytes)], buf[p.Buffer:])
			}
			if err := r.Store(buf, list); err != nil {
				t.Fatal(err)
			}
			r.compare(t)
		}
	})
}

func longest(list []pieces.Piece) int {
	n := 0
	for _, p := range list {
		n = max(n, p.Bytes)
	}
	return n
}

func (r *rig) compare(t *testing.T) {
	t.Helper()
	got := make([]byte, frameBytes)
	if err := errors.Join(r.stream.CopyToHost(got, r.frames.Ptr()), r.stream.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, r.want) {
		t.Fatal("the frames differ")
	}
}

// TestDeviceBuffers: the same for a buffer in GPU memory, in the order of the
// caller's stream: what it filled before is stored, what it reads after was loaded.
func TestDeviceBuffers(t *testing.T) {
	eachContext(t, func(t *testing.T, ctx *cuda.Context, _ *cudafake.GPU) {
		r := newRig(t, ctx)
		buf, err := ctx.Alloc(frameBytes + 16)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		for _, list := range r.lists(frameBytes) {
			data := make([]byte, frameBytes+16)
			fill(r.rng, data)
			for _, p := range list {
				copy(r.want[p.Frame:p.Frame+uint64(p.Bytes)], data[p.Buffer:])
			}
			if err := errors.Join(r.stream.CopyToDevice(buf.Ptr(), data), r.StoreDevice(buf.Ptr(), frameBytes+16, r.stream, list)); err != nil {
				t.Fatal(err)
			}
			r.compare(t)
			got := make([]byte, len(data))
			if err := errors.Join(r.stream.Memset8(buf.Ptr(), 0xee, uint64(len(data))), r.LoadDevice(buf.Ptr(), frameBytes+16, r.stream, list),
				r.stream.CopyToHost(got, buf.Ptr()), r.stream.Wait(t.Context())); err != nil {
				t.Fatal(err)
			}
			for _, p := range list {
				if !bytes.Equal(got[p.Buffer:p.Buffer+int64(p.Bytes)], data[p.Buffer:p.Buffer+int64(p.Bytes)]) {
					t.Fatalf("a piece of %d bytes was loaded wrongly", p.Bytes)
				}
			}
			if err := r.LoadDevice(buf.Ptr(), frameBytes+16, nil, list); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestPiecesOutside: nothing is moved when one piece reaches outside.
func TestPiecesOutside(t *testing.T) {
	eachContext(t, func(t *testing.T, ctx *cuda.Context, _ *cudafake.GPU) {
		r := newRig(t, ctx)
		for _, p := range []pieces.Piece{{frameBytes, 0, 1}, {frameBytes - 1, 0, 2}, {1<<64 - 1, 0, 2}, {0, -1, 1}, {0, 99, 2}, {0, 1 << 62, 1}, {0, 0, 0}, {0, 0, -1}, {0, 0, pieces.MaxBytes + 1}} {
			var re *pieces.RangeError
			if err := r.Store(make([]byte, 100), []pieces.Piece{{0, 0, 1}, p}); !errors.As(err, &re) || re.Number != 1 {
				t.Errorf("%+v: %v", p, err)
			}
			if err := r.LoadDevice(r.frames.Ptr(), 100, nil, []pieces.Piece{p}); !errors.As(err, &re) {
				t.Errorf("%+v: %v", p, err)
			}
		}
		r.compare(t)
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if err := r.Load(make([]byte, 9), []pieces.Piece{{0, 0, 1}}); !errors.Is(err, pieces.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestFailures of the driver come back from the call that they happened in.
func TestFailures(t *testing.T) {
	eachContext(t, func(t *testing.T, ctx *cuda.Context, fake *cudafake.GPU) {
		if fake == nil {
			t.Skip("needs injected failures")
		}
		r := newRig(t, ctx)
		fake.FailNext(cuda.SymLaunchKernel, cuda.LaunchOutOfResources, 1)
		if err := r.Load(make([]byte, 9), []pieces.Piece{{0, 0, 1}}); !errors.Is(err, cuda.LaunchOutOfResources) {
			t.Errorf("%v", err)
		}
		for i := range 6 {
			fake.FailNext(cuda.SymMemHostAlloc, cuda.OutOfMemory, 1)
			if i%2 == 1 {
				fake.FailNext(cuda.SymEventCreate, cuda.OutOfMemory, 1)
			}
			if m, err := pieces.New(ctx, r.frames.Ptr(), frameBytes, time.Second); err == nil {
				t.Error("made without memory")
				m.Close()
			}
		}
		r.compare(t)
	})
}
