package soft

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
)

// TestFileFUASyncs: a write with FUA is finished by fdatasync, and no other
// write is; the steps are those that every engine takes.
func TestFileFUASyncs(t *testing.T) {
	b := openFile(t, filepath.Join(t.TempDir(), "disk"), FileOptions{Size: 64 << 10, Engine: EngineSync, Direct: DirectOff})
	for _, kind := range []OpKind{OpWrite, OpWriteZeroes, OpRead} {
		for _, fua := range []bool{false, true} {
			op := transfer(kind, 4096, alignedBuffer(4096, 4096))
			op.FUA = fua
			f := &fileOp{file: b}
			var steps []reqKind
			for over := f.begin(op); !over; over = f.complete(f.call()) {
				steps = append(steps, f.next)
			}
			wantStatus(t, op, libnvm.StatusSuccess)
			synced := steps[len(steps)-1] == reqSync
			if want := fua && kind != OpRead; synced != want {
				t.Errorf("kind %d, FUA %v: steps %v, want a sync at the end: %v", kind, fua, steps, want)
			}
		}
	}
}

// TestFileFUAFails: a write with FUA whose fdatasync fails is no success, in
// any engine: here an earlier one has lost data.
func TestFileFUAFails(t *testing.T) {
	eachMode(t, 64<<10, func(t *testing.T, b *File, ch Channel) {
		b.syncLost.Store(true)
		plain, fua := transfer(OpWrite, 0, alignedBuffer(4096, 4096)), transfer(OpWrite, 4096, alignedBuffer(4096, 4096))
		fua.FUA = true
		finish(t, ch, plain, fua)
		wantStatus(t, plain, libnvm.StatusSuccess)
		wantStatus(t, fua, libnvm.StatusWriteFault)
	})
}

// TestFileRefusesFIFO: nothing waits for the other end of a FIFO.
func TestFileRefusesFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []FileOptions{{ReadOnly: true}, {}, {Size: 1 << 20}} {
		opened := make(chan error, 1)
		go func() {
			_, err := OpenFile(path, o)
			opened <- err
		}()
		select {
		case err := <-opened:
			if err == nil || err.Error() != "soft: "+path+" is neither a file nor a block device" {
				t.Errorf("%+v: %v", o, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%+v: hangs", o)
		}
	}
}

// TestFileHostError: the system's own error is kept beside the status.
func TestFileHostError(t *testing.T) {
	b := openFile(t, filepath.Join(t.TempDir(), "disk"), FileOptions{Size: 64 << 10, Engine: EngineSync})
	if err := b.HostError(); err != nil {
		t.Errorf("before any operation: %v", err)
	}
	op := transfer(OpWrite, 0, alignedBuffer(4096, 4096))
	f := &fileOp{file: b}
	if f.begin(op) || !f.complete(0, unix.ENOSPC) {
		t.Fatal("a write with an error goes on")
	}
	wantStatus(t, op, libnvm.StatusCapacityExceeded)
	if err := b.HostError(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("HostError is %v, want ENOSPC", err)
	}
}
