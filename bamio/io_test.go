package bamio_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// fill puts a pattern that names drive, block and round into a block.
func fill(b []byte, drive int, lba uint64, round int) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(drive)<<56|uint64(round)<<48|lba<<12|uint64(i))
	}
}

func check(b []byte, drive int, lba uint64, round int) error {
	for i := 0; i+8 <= len(b); i += 8 {
		want := uint64(drive)<<56 | uint64(round)<<48 | lba<<12 | uint64(i)
		if got := binary.LittleEndian.Uint64(b[i:]); got != want {
			return fmt.Errorf("drive %d, block %d, byte %d: %#x, want %#x", drive, lba, i, got, want)
		}
	}
	return nil
}

// exercise has threads write spans of their own to every drive and read them
// back through another buffer, on all queues.
func exercise(d *bamiofake.Device, workers, rounds int, blocks uint32) error {
	return threads(workers, func(i int) error {
		for round := range rounds {
			drive := (i + round) % len(d.Drives)
			v := &d.Drives[drive]
			queue := int(v.FirstQueue) + (i+round)%int(v.QueueCount)
			size := uint64(v.BlockSize)
			out, in := d.Buffer(2*i), d.Buffer(2*i+1)
			lba := uint64(i) * uint64(blocks)
			for k := range uint64(blocks) {
				fill(out[k*size:(k+1)*size], drive, lba+k, round)
			}
			clear(in)
			if st := d.Transfer(queue, bamiofake.Write, bamiofake.Span{LBA: lba, Blocks: blocks, Buffer: uint32(2 * i)}); st != 0 {
				return fmt.Errorf("write: %w", bamio.Status(st).Err())
			}
			if st := d.Transfer(queue, bamiofake.Flush, bamiofake.Span{}); st != 0 {
				return fmt.Errorf("flush: %w", bamio.Status(st).Err())
			}
			if st := d.Transfer(queue, bamiofake.Read, bamiofake.Span{LBA: lba, Blocks: blocks, Buffer: uint32(2*i + 1)}); st != 0 {
				return fmt.Errorf("read: %w", bamio.Status(st).Err())
			}
			for k := range uint64(blocks) {
				if err := check(in[k*size:(k+1)*size], drive, lba+k, round); err != nil {
					return fmt.Errorf("worker %d, round %d: %w", i, round, err)
				}
			}
		}
		return nil
	})
}

// TestIO: what kernels write they read back, over drives, queues, depths,
// buffer sizes and starting values of the counters.
func TestIO(t *testing.T) {
	for _, c := range []struct {
		name    string
		drives  int
		blocks  uint32 // of 512 bytes, per command
		options bamio.Options
	}{
		{"one queue", 1, 1, bamio.Options{Queues: 1, Buffers: 32}},
		{"depth 2", 1, 8, bamio.Options{Queues: 2, Depth: 2, Buffers: 32}},
		{"odd depth", 1, 8, bamio.Options{Queues: 1, Depth: 7, Buffers: 32}},
		{"three drives", 3, 8, bamio.Options{Queues: 7, Depth: 16, Buffers: 32}},
		{"two pages", 1, 16, bamio.Options{Queues: 2, Buffers: 32, BufferBytes: 8192}},
		{"lists", 2, 128, bamio.Options{Queues: 4, Buffers: 32, BufferBytes: 64 << 10}},
		{"longest lists", 1, 2048, bamio.Options{Queues: 2, Buffers: 32, BufferBytes: 2 << 20}},
		{"wrap", 1, 1, bamio.Options{Queues: 1, Depth: 8, Buffers: 32, FirstEntry: 1<<32 - 16}},
		{"wrap at odd depth", 1, 1, bamio.Options{Queues: 1, Depth: 7, Buffers: 32, FirstEntry: 1<<32 - 1}},
		{"wrap of one thread", 1, 1, bamio.Options{Queues: 1, Depth: 7, Buffers: 2, FirstEntry: 1<<32 - 1}},
		{"wrap of 64 bits", 1, 1, bamio.Options{Queues: 1, Depth: 4, Buffers: 32, FirstEntry: 1<<64 - 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			for i := range c.drives {
				c.options.Drives = append(c.options.Drives, r.drive(32<<20, soft.Config{Threads: 2}))
				r.shift(i) // so that each controller has addresses of its own
			}
			e := r.open(c.options)
			workers, rounds := c.options.Buffers/2, 12
			if c.blocks > 1000 {
				rounds = 2
			}
			r.must(e, func(d *bamiofake.Device) error { return exercise(d, workers, rounds, c.blocks) })
			s, err := e.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(workers * rounds * 3)
			if s.Commands != want || s.Completions != want || s.Spurious != 0 || s.InFlight != 0 || s.Abandoned != 0 || s.Doorbells == 0 {
				t.Errorf("counters: %+v, want %d commands", s, want)
			}
			var writes, bytes uint64
			for _, x := range s.Controllers {
				writes += x.Writes
				bytes += x.ReadBytes
				if !x.Known || x.DoorbellRange+x.DoorbellBackward != 0 {
					t.Errorf("controller: %+v", x)
				}
				if _, tells := any(r.soft[0]).(interface{ CPUTime() time.Duration }); tells && !x.CPUKnown {
					t.Errorf("the processor time of service threads is not taken over: %+v", x)
				}
			}
			if writes != want/3 || bytes != want/3*uint64(c.blocks)*512 {
				t.Errorf("controllers count %d writes and %d bytes read, want %d and %d", writes, bytes, want/3, want/3*uint64(c.blocks)*512)
			}
		})
	}
}

// TestSharedController: two drives that are namespaces of one controller have
// their own queues, and a second engine is refused until the first is closed.
func TestSharedController(t *testing.T) {
	r := newRig(t)
	d := r.drive(8<<20, soft.Config{})
	o := bamio.Options{Drives: []bamio.Drive{d, d}, Queues: 4, Buffers: 32}
	e := r.open(o)
	r.must(e, func(d *bamiofake.Device) error { return exercise(d, 1, 8, 1) })
	o.GPU = r.gpu
	var setup *bamio.SetupError
	if _, err := bamio.Open(t.Context(), o); !errors.As(err, &setup) || setup.Step != "map the doorbells" {
		t.Errorf("a second engine: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := r.open(o)
	r.must(again, func(d *bamiofake.Device) error { return exercise(d, 4, 8, 1) })
	if st := r.soft[0].Stats(); st.DoorbellBackward != 0 || st.DoorbellRange != 0 {
		t.Errorf("closing has moved a doorbell backward: %+v", st)
	}
}

// TestDriveErrors: statuses of the drive reach the GPU as they are, and those of
// commands that cannot be, too.
func TestDriveErrors(t *testing.T) {
	r := newRig(t)
	plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Fault: soft.Fault{Status: libnvm.StatusUnrecoveredRead, DNR: true}})
	if err != nil {
		t.Fatal(err)
	}
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{Faults: plan})}, Queues: 1, Buffers: 4})
	r.must(e, func(d *bamiofake.Device) error {
		st := bamio.Status(d.Transfer(0, bamiofake.Read, bamiofake.Span{Blocks: 1}))
		if nvme, ok := st.NVMe(); !ok || nvme != libnvm.StatusUnrecoveredRead {
			t.Errorf("a read that fails: %v (%#x)", st, uint32(st))
		}
		if st := d.Transfer(0, bamiofake.Write, bamiofake.Span{Blocks: 1}); st != 0 {
			t.Errorf("a write: %v", bamio.Status(st))
		}
		st = bamio.Status(d.Transfer(0, bamiofake.Read, bamiofake.Span{LBA: d.Drives[0].Blocks, Blocks: 1}))
		if !errors.Is(st.Err(), &bamio.StatusError{Status: bamio.BadArgument}) {
			t.Errorf("behind the end: %v", st)
		}
		return nil
	})
}

// TestTimeout: a completion that never comes ends in a time-out within the
// deadline, the id stays abandoned, and the queue goes on.
func TestTimeout(t *testing.T) {
	r := newRig(t)
	plan, err := soft.NewFaultPlan(1, soft.Rule{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Limit: 1, Fault: soft.Fault{Drop: true}})
	if err != nil {
		t.Fatal(err)
	}
	e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{Faults: plan})}, Queues: 1, Depth: 8, Buffers: 64, Deadline: time.Second})
	r.must(e, func(d *bamiofake.Device) error {
		begun := time.Now()
		if st := bamio.Status(d.Transfer(0, bamiofake.Read, bamiofake.Span{Blocks: 1})); st != bamio.Timeout {
			t.Errorf("a lost completion: %v", st)
		}
		if took := time.Since(begun); took < time.Second || took > 20*time.Second {
			t.Errorf("the time-out took %v", took)
		}
		return exercise(d, 8, 8, 1)
	})
	s, err := e.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Abandoned != 1 || s.InFlight != 0 {
		t.Errorf("%d abandoned, %d in flight", s.Abandoned, s.InFlight)
	}
}

// TestLag: nothing depends on work that runs by itself, nor on when it does.
func TestLag(t *testing.T) {
	for seed := range uint64(3) {
		r := newRig(t, cudafake.Seed(seed), cudafake.Lag(20*time.Millisecond))
		e := r.open(bamio.Options{Drives: []bamio.Drive{r.drive(8<<20, soft.Config{})}, Queues: 2, Buffers: 32})
		r.must(e, func(d *bamiofake.Device) error { return exercise(d, 4, 4, 1) })
	}
}
