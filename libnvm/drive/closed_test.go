package drive_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestUseAfterClose: the registers and the memory are unmapped by then, and
// nothing touches them.
func TestUseAfterClose(t *testing.T) {
	d := open(t, "mem:1MiB", drive.Options{})
	ns, err := d.Controller.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: 4})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := drive.Attach(context.WithoutCancel(t.Context()), "mem:1MiB", drive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attached.Content(); err == nil {
		t.Error("the content was read before BringUp")
	}
	if err := errors.Join(d.Close(), attached.Close()); err != nil {
		t.Fatal(err)
	}
	_, alloc := d.Transport.Alloc(4096)
	_, content := d.Content()
	_, _, file := d.Transport.(*soft.Controller).File()
	for name, err := range map[string]error{
		"health": d.Controller.Health(), "reset": d.Controller.Reset(), "flush": q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns}),
		"queue reset": q.Reset(), "bring-up": attached.BringUp(), "memory": alloc, "content": content, "memfd": file,
	} {
		if !errors.Is(err, libnvm.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if err := errors.Join(d.Controller.Dump(io.Discard), q.Dump(io.Discard)); err != nil {
		t.Error(err)
	}
	var gone *libnvm.DeviceGoneError
	if _, err := libnvm.Open(d.Transport, libnvm.Config{}); !errors.As(err, &gone) {
		t.Errorf("a controller over a closed transport: %v, want a *libnvm.DeviceGoneError", err)
	}
}

// TestContextEnds: a drive whose service threads have ended is gone, and is
// closed at once: nobody waits for the answer of a controller that nobody serves.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	d, err := drive.Open(ctx, "mem:1MiB", drive.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	var gone *libnvm.DeviceGoneError
	for end := time.Now().Add(5 * time.Second); !errors.As(d.Controller.Health(), &gone); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("health of a drive that nobody serves: %v", d.Controller.Health())
		}
	}
	begun := time.Now()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("closing it took %v", took)
	}
}

// TestFIFO: a path that is no store is refused at once, whatever is asked for.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range []drive.Access{drive.ReadOnly, drive.ReadWrite} {
		for _, size := range []string{"", "?size=1MiB"} {
			opened := make(chan error, 1)
			go func() {
				_, err := drive.Open(t.Context(), "file:"+path+size, drive.Options{Access: a})
				opened <- err
			}()
			select {
			case err := <-opened:
				if err == nil || !strings.Contains(err.Error(), "neither a file nor a block device") {
					t.Errorf("access %d, %q: %v", a, size, err)
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("access %d, %q: hangs", a, size)
			}
		}
	}
}

// TestDiscard: Close removes a file that this Open made, and no other.
func TestDiscard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	for _, x := range []struct{ before, discard, after bool }{{false, true, false}, {false, false, true}, {true, true, true}} {
		d := open(t, "file:"+path+"?size=1MiB", drive.Options{Access: drive.ReadWrite})
		if d.Fresh == x.before {
			t.Fatalf("fresh: %v", d.Fresh)
		}
		if x.discard {
			d.Discard()
		}
		if err := errors.Join(d.HostError(), d.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); (err == nil) != x.after {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
