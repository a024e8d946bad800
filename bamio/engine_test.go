package bamio_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestOpenClose: defaults, and that nothing is left.
func TestOpenClose(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(1<<20, soft.Config{})}})
	if e.Queues() != 128 || e.Depth() != 64 {
		t.Errorf("%d queues of %d entries, want 128 of 64", e.Queues(), e.Depth())
	}
	if n, size := e.Buffers(); n != 128*63 || size != 4096 || len(e.Payload()) != n*size {
		t.Errorf("%d buffers of %d bytes, %d in all", n, size, len(e.Payload()))
	}
	t.Log(e.Path())
	for _, b := range e.Path().Blockers {
		t.Log(b)
	}
}

// TestUnwind: whichever call of the driver fails, Open gives everything back and
// says what failed.
func TestUnwind(t *testing.T) {
	r := newRig(t)
	d := r.drive(1<<20, soft.Config{})
	o := bamio.Options{GPU: r.gpu, Drives: []bamio.Drive{d}, Queues: 2, Buffers: 8}
	leaks := len(r.fake.Leaks()) // the context itself
	steps := 0
	for _, s := range []cuda.Symbol{
		cuda.SymMemHostRegister, cuda.SymMemHostGetDevicePointer, cuda.SymMemHostAlloc, cuda.SymMemAlloc,
		cuda.SymStreamCreateWithPriority, cuda.SymMemcpyHtoDAsync, cuda.SymStreamQuery,
	} {
		for skip := range 12 {
			before := r.fake.Calls(s)
			r.fail.Store(&failure{symbol: s, number: int64(before + skip + 1)})
			e, err := bamio.Open(t.Context(), o)
			met := r.fail.Swap(nil).met.Load()
			if err == nil {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if met {
					t.Errorf("call %d of %s failed and Open did not", skip+1, s)
				}
				break
			}
			steps++
			var setup *bamio.SetupError
			if !errors.As(err, &setup) || !errors.Is(err, cuda.OutOfMemory) {
				t.Errorf("call %d of %s: %v", skip+1, s, err)
			}
			if left := r.fake.Leaks(); len(left) != leaks {
				t.Fatalf("call %d of %s leaves %v", skip+1, s, left)
			}
		}
	}
	if steps < 12 {
		t.Errorf("%d steps failed, Open has more", steps)
	}
	if n := r.ctrls[0].QueueLimit(); n != 128 {
		t.Errorf("limit %d", n)
	}
	o.Queues = 128 // all of them are free again
	e, err := bamio.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestOptions: all violations come together.
func TestOptions(t *testing.T) {
	_, err := bamio.Open(t.Context(), bamio.Options{
		Drives: []bamio.Drive{{Name: "x"}, {}}, Queues: 1, Depth: 1, Buffers: -1, BufferBytes: 5000, Requests: 3, Deadline: -1,
	})
	for _, word := range []string{"GPU", `"x"`, "Queues", "queues for 2 drives", "Depth", "Buffers", "BufferBytes", "Requests", "Deadline"} {
		if err == nil || word != "Queues" && !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in: %v", word, err)
		}
	}
}

// TestLimits: what the controllers cannot give is an error if it was asked for,
// and otherwise less is taken.
func TestLimits(t *testing.T) {
	r := newRig(t)
	d := []bamio.Drive{r.drive(1<<20, soft.Config{Queues: 3, MaxDepth: 16})}
	e := r.open(bamio.Options{Drives: d})
	if e.Queues() != 3 || e.Depth() != 16 {
		t.Errorf("%d queues of %d", e.Queues(), e.Depth())
	}
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 8, 4, 1) })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var limit *libnvm.UnsupportedError
	for _, o := range []bamio.Options{{Queues: 4}, {Depth: 17}} {
		o.GPU, o.Drives = r.gpu, d
		if _, err := bamio.Open(t.Context(), o); !errors.As(err, &limit) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bamio.Open(ended, bamio.Options{GPU: r.gpu, Drives: d}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestDescription: what the engine says of itself is what kernels find.
func TestDescription(t *testing.T) {
	r := newRig(t)
	e := r.open(bamio.Options{
		Drives: []bamio.Drive{r.drive(1<<20, soft.Config{}), r.drive(4<<20, soft.Config{MaxTransfer: 8192})}, Queues: 5, Buffers: 8, BufferBytes: 8192,
	})
	r.must(e, func(d *bamiofake.Device) error {
		for i, x := range e.Drives() {
			v := d.Drives[i]
			if v.Blocks != x.Blocks || int(v.BlockSize) != x.BlockSize || int(v.MaxBlocks)*x.BlockSize != x.MaxBytes ||
				int(v.FirstQueue) != x.FirstQueue || int(v.QueueCount) != x.Queues {
				t.Errorf("drive %d: %+v and %+v", i, v, x)
			}
		}
		copy(d.Buffer(3), "from the GPU")
		if uint64(e.PayloadPtr()) != d.Engine.Payload.Base || d.Engine.DeadlineNS != e.Deadline() {
			t.Errorf("%+v", d.Engine)
		}
		return nil
	})
	if got := string(e.Payload()[3*8192:][:12]); got != "from the GPU" {
		t.Errorf("buffer 3 holds %q", got)
	}
	if x := e.Drives(); x[0].Queues+x[1].Queues != 5 || x[1].MaxBytes != 8192 {
		t.Errorf("%+v", x)
	}
}
