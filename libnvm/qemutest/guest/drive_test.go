package guest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/qemu/guest"
	"github.com/tritier/tritier/libnvm"
)

// The tests here run in both modes.

// TestDriveReadWrite compares data over sizes and offsets: a transfer to an address that the drive cannot reach completes with success in
// QEMU and drops the data.
func TestDriveReadWrite(t *testing.T) {
	for _, serial := range []string{mainDrive, narrowDrive} {
		t.Run(serial, func(t *testing.T) {
			b := newBench(t, serial, dataNS, libnvm.QueueConfig{Depth: 16})
			rng := rand.New(rand.NewPCG(1, 2))
			const half = 512 << 10
			mem := b.m.Bytes()
			for _, size := range []int{b.ns.BlockSize, 4096, 8192, 12288, 65536, 128 << 10, 384 << 10} {
				for _, off := range []int{0, 4, 512, 4092} {
					lba := rng.Uint64N(b.ns.Blocks - uint64(size/b.ns.BlockSize))
					src, dst := mem[off:off+size], mem[half+off:half+off+size]
					for i := range src {
						src[i] = byte(rng.Uint32())
					}
					clear(dst)
					n := uint64(size / b.ns.BlockSize)
					b.do(t, libnvm.OpWrite, lba, n, off)
					b.do(t, libnvm.OpRead, lba, n, half+off)
					if !bytes.Equal(src, dst) {
						t.Fatalf("size %d, offset %d: what was read is not what was written", size, off)
					}
				}
			}
		})
	}
}

// TestDriveQueues makes all queue pairs the drive grants and wraps each ring.
func TestDriveQueues(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 8})
	n := b.c.QueueLimit()
	if n < 63 {
		t.Fatalf("%d queue pairs granted, want at least 63", n)
	}
	var qs []*libnvm.QueuePair
	for range n - 1 {
		q, err := b.c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
		if err != nil {
			t.Fatal(err)
		}
		qs = append(qs, q)
	}
	for i, q := range qs {
		for range 10 {
			if err := q.Do(b.request(libnvm.OpRead, 0, 1, 0)); err != nil {
				t.Fatalf("queue %d: %v", q.ID(), err)
			}
		}
		if i%2 == 0 {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDriveDoorbellCost gates on what does not vary under emulation: doorbell writes for each command, and allocations.
func TestDriveDoorbellCost(t *testing.T) {
	for _, depth := range []int{1, 32} {
		t.Run(fmt.Sprint("depth", depth), func(t *testing.T) {
			b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 64})
			const total = 2048
			rs := make([]libnvm.Request, depth)
			out := make([]libnvm.Completion, depth)
			allocs := testing.AllocsPerRun(1, func() {
				for done := 0; done < total; {
					for i := range rs {
						rs[i] = libnvm.Request{Op: libnvm.OpRead, NS: b.ns, LBA: uint64(done+i) * 8 % 1024, Blocks: 8, Mem: b.m, Offset: i * 4096}
					}
					if _, n, err := b.q.SubmitBatch(rs); err != nil || n != depth {
						t.Fatal(n, err)
					}
					for got := 0; got < depth; {
						k := b.q.Poll(out)
						for _, c := range out[:k] {
							if c.Err != nil {
								t.Fatal(c.Err)
							}
						}
						got += k
					}
					done += depth
				}
			})
			s := b.q.Stats()
			per := float64(s.SQDoorbells+s.CQDoorbells) / float64(s.Commands)
			t.Logf("%.3f doorbell writes for each command, %.0f allocations in %d commands", per, allocs, total)
			if most := map[int]float64{1: 2.0, 32: 0.2}[depth]; per > most {
				t.Errorf("%.3f doorbell writes for each command, want at most %.2f", per, most)
			}
			if allocs > 0 {
				t.Errorf("%.0f allocations", allocs)
			}
		})
	}
}

// TestDriveStatus checks that errors of the media come out with the name of the specification.
func TestDriveStatus(t *testing.T) {
	b := newBench(t, mainDrive, badNS, libnvm.QueueConfig{Depth: 8})
	status := func(what string, err error, want libnvm.Status) {
		t.Helper()
		var s *libnvm.StatusError
		if !errors.As(err, &s) || s.Status != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	status("read of a bad sector", b.q.Do(b.request(libnvm.OpRead, 800, 1, 0)), libnvm.StatusUnrecoveredRead)
	status("write of a bad sector", b.q.Do(b.request(libnvm.OpWrite, 900, 1, 0)), libnvm.StatusWriteFault)
	b.do(t, libnvm.OpRead, 808, 1, 0)
	status("read that fails once", b.q.Do(b.request(libnvm.OpRead, 1000, 1, 0)), libnvm.StatusUnrecoveredRead)
	b.do(t, libnvm.OpRead, 1000, 1, 0)
	iova, err := b.m.IOVA(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what string
		cmd  libnvm.Command
		want libnvm.Status
	}{
		{"LBA beyond the end", libnvm.Command{Opcode: libnvm.OpRead, NSID: badNS, PRP1: iova, CDW11: 1 << 30}, libnvm.StatusLBAOutOfRange},
		{"unknown namespace", libnvm.Command{Opcode: libnvm.OpRead, NSID: 300, PRP1: iova}, libnvm.StatusInvalidNamespace},
		{"unknown opcode", libnvm.Command{Opcode: 0x55, NSID: badNS, PRP1: iova}, libnvm.StatusInvalidOpcode},
		{"PRP2 with an offset", libnvm.Command{Opcode: libnvm.OpRead, NSID: badNS, PRP1: iova, PRP2: iova + 4096 + 8, CDW12: 15}, libnvm.StatusPRPOffsetInvalid},
	} {
		tk, err := b.q.SubmitCommand(&x.cmd, b.m, 0, 5*time.Second)
		if err != nil {
			t.Fatal(x.what, err)
		}
		_, err = b.q.Wait(tk, 10*time.Second)
		status(x.what, err, x.want)
	}
}

// TestDriveLiveFault turns an error on and off while the drive is in use.
func TestDriveLiveFault(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 8})
	// The rules of a blkdebug node cannot be changed, but the throttle filter above it can be pointed at another one.
	b.do(t, libnvm.OpRead, 5000, 1, 0)
	point(t, "n1err")
	var s *libnvm.StatusError
	if err := b.q.Do(b.request(libnvm.OpRead, 5000, 1, 0)); !errors.As(err, &s) || s.Status != libnvm.StatusUnrecoveredRead {
		t.Errorf("with the fault: %v, want %v", err, libnvm.StatusUnrecoveredRead)
	}
	point(t, "n1")
	b.do(t, libnvm.OpRead, 5000, 1, 0)
}

// TestDriveTimeout lets a command run into its deadline: its memory stays quarantined until the reset, and the late completion is counted,
// not delivered.
func TestDriveTimeout(t *testing.T) {
	b := newBench(t, mainDrive, slowNS, libnvm.QueueConfig{Depth: 8})
	r := b.request(libnvm.OpRead, 0, 1, 0)
	r.Timeout = 50 * time.Millisecond
	var to *libnvm.TimeoutError
	if err := b.q.Do(r); !errors.As(err, &to) {
		t.Fatalf("%v, want a time-out: the namespace takes a second", err)
	}
	if err := b.m.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		t.Errorf("Free of quarantined memory: %v, want ErrMemoryHeld", err)
	}
	for end := time.Now().Add(20 * time.Second); b.q.Stats().Late == 0; time.Sleep(time.Millisecond) {
		if b.q.Poll(make([]libnvm.Completion, 1)) != 0 {
			t.Fatal("a late completion was delivered")
		}
		if time.Now().After(end) {
			t.Fatal("the late completion was not seen")
		}
	}
	if err := b.c.Reset(); err != nil {
		t.Fatal(err)
	}
	if n := b.m.Held(); n != 0 {
		t.Errorf("%d commands hold the memory after the reset", n)
	}
}

// TestDriveAbort sends Abort for a slow command; whether QEMU aborts it or not, the command ends once.
func TestDriveAbort(t *testing.T) {
	b := newBench(t, mainDrive, slowNS, libnvm.QueueConfig{Depth: 8})
	tk, err := b.q.Submit(b.request(libnvm.OpRead, 0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.c.Abort(b.q, tk)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.q.Wait(tk, 20*time.Second)
	if c.Ticket != tk {
		t.Fatalf("no completion of the command: %v", err)
	}
	t.Logf("%d commands aborted, completion %v", n, err)
	var s *libnvm.StatusError
	if n == 0 && err != nil || n == 1 && (!errors.As(err, &s) || s.Status != libnvm.StatusAbortRequested) {
		t.Errorf("%d commands aborted, and yet it ended with %v", n, err)
	}
}

// TestDriveResetInFlight resets the controller with commands that the drive is still working on, and with some that it cannot finish.
func TestDriveResetInFlight(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 64})
	limit := func(iops string) {
		guest.QMP(t, `{"execute":"qom-set","arguments":{"path":"/objects/tg","property":"limits","value":{"iops-total":`+iops+`,"iops-total-max":`+iops+`}}}`)
	}
	for i := range 64 {
		b.m.Bytes()[i] = byte(i + 1)
	}
	b.do(t, libnvm.OpWrite, 64, 1, 0)
	limit("1")
	defer limit("0")
	for i := range 32 {
		r := b.request(libnvm.OpRead, uint64(i), 1, 4096*(i+1))
		r.Timeout = 200 * time.Millisecond
		if _, err := b.q.Submit(r); err != nil {
			t.Fatal(err)
		}
	}
	timedOut := 0
	out := make([]libnvm.Completion, 32)
	for done, end := 0, time.Now().Add(5*time.Second); done < 32; {
		n := b.q.Poll(out)
		for _, c := range out[:n] {
			var to *libnvm.TimeoutError
			if errors.As(c.Err, &to) {
				timedOut++
			} else if c.Err != nil {
				t.Fatal(c.Err)
			}
		}
		if done += n; time.Now().After(end) {
			t.Fatalf("%d of 32 requests ended", done)
		}
	}
	if timedOut < 16 {
		t.Fatalf("%d requests timed out, want most of them", timedOut)
	}
	limit("0")
	if err := b.c.Reset(); err != nil {
		t.Fatal(err)
	}
	b.queue(t, libnvm.QueueConfig{Depth: 64})
	clear(b.m.Bytes()[:512])
	b.do(t, libnvm.OpRead, 64, 1, 0)
	if b.m.Bytes()[0] != 1 || b.m.Bytes()[63] != 64 {
		t.Error("data written before the reset is not there after it")
	}
}

// TestDriveEvents has QEMU raise a SMART warning, and rings a doorbell with a value that no queue has.
func TestDriveEvents(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 8})
	if err := b.c.EnableEvents(0xff); err != nil {
		t.Fatal(err)
	}
	next := func(what string, kind uint8) {
		t.Helper()
		var ev [4]libnvm.Event
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			n, err := b.c.Events(ev[:])
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range ev[:n] {
				if e.Type == kind {
					t.Log(e)
					return
				}
			}
		}
		t.Fatalf("no event after %s", what)
	}
	warn := func(v string) {
		guest.QMP(t, `{"execute":"qom-set","arguments":{"path":"/machine/peripheral/nv0","property":"smart_critical_warning","value":`+v+`}}`)
	}
	warn("4")
	next("a SMART warning", 1)
	warn("0")
	b.q.Layout().SQDoorbell.Ring(5000)
	next("a doorbell beyond the queue", 0)
}

// TestDriveCMB puts a submission queue into the controller memory buffer, which lies in another BAR.
func TestDriveCMB(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 16, CMB: true})
	if n := b.c.CMBBytes(); n != 16<<20 {
		t.Errorf("CMB of %d bytes, want 16 MiB", n)
	}
	for i := range 4096 {
		b.m.Bytes()[i] = byte(i * 7)
	}
	b.do(t, libnvm.OpWrite, 128, 8, 0)
	for range 50 {
		clear(b.m.Bytes()[4096:8192])
		b.do(t, libnvm.OpRead, 128, 8, 4096)
		if !bytes.Equal(b.m.Bytes()[:4096], b.m.Bytes()[4096:8192]) {
			t.Fatal("what was read is not what was written")
		}
	}
}

// TestDriveGoneForGood takes a drive off the bus for good while it works on a command. Its memory cannot be freed before the transport is
// closed, and can then.
func TestDriveGoneForGood(t *testing.T) {
	tr, err := openTransport(t, mainDrive)
	if err != nil {
		t.Fatal(err)
	}
	c, err := libnvm.Open(tr, libnvm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := c.Namespace(slowNS)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tr.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	tk, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: m})
	if err != nil {
		t.Fatal(err)
	}
	command(t, addressOf(t, mainDrive), 0, decodeMemory|busMaster) // QEMU then gives zeroes
	_, err = q.Wait(tk, 10*time.Second)
	if e := wantError[*libnvm.NotReadyError](t, "off the bus", err); e != nil && !e.NoAnswer {
		t.Error("the error does not say that nothing answers")
	}
	wantError[*libnvm.ProtocolError](t, "reset", c.Reset())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		t.Errorf("free before the transport is closed: %v, want ErrMemoryHeld", err)
	}
	time.Sleep(500 * time.Millisecond) // the command ends, to nowhere
	// The raw transport says that memory is left.
	if err := tr.Close(); err != nil {
		t.Log("close: ", err)
	}
	if err := m.Free(); err != nil {
		t.Error("free after the transport was closed: ", err)
	}
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
	b.do(t, libnvm.OpRead, 0, 1, 0)
}

// TestDriveReopen closes everything and opens it again: a register mapping left behind would keep the device busy.
func TestDriveReopen(t *testing.T) {
	for range 3 {
		t.Run("open", func(t *testing.T) {
			b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
			b.do(t, libnvm.OpRead, 0, 1, 0)
		})
	}
}
