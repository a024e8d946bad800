package volume_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// holder is a backend that can hold one write back, and so let it land later
// than others that were sent after it.
type holder struct {
	soft.Backend
	mu   sync.Mutex
	next bool // the next write is held
	hold bool // until this is false
	kept int  // writes that are held now
}

func (h *holder) Open() (soft.Channel, error) {
	c, err := h.Backend.Open()
	return &holderChannel{Channel: c, h: h}, err
}

func (h *holder) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next, h.hold = true, true
}

func (h *holder) letGo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = false
}

func (h *holder) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept
}

type holderChannel struct {
	soft.Channel
	h    *holder
	kept []*soft.Op
}

func (c *holderChannel) Start(op *soft.Op) bool {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if op.Kind == soft.OpWrite && op.Length == 4096 && c.h.next { // a page, not its intent
		c.h.next = false
		c.h.kept++
		c.kept = append(c.kept, op)
		return false
	}
	return c.Channel.Start(op)
}

func (c *holderChannel) Reap(done []*soft.Op) []*soft.Op {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if !c.h.hold {
		for _, op := range c.kept {
			c.h.kept--
			c.Channel.Start(op) // memory finishes it at once
			done = append(done, op)
		}
		c.kept = nil
	}
	return c.Channel.Reap(done)
}

// heldVolume is a volume over memory whose writes can be held back.
func heldVolume(t *testing.T, checksums, owned bool) (*fixture, *holder, *libnvm.Controller) {
	t.Helper()
	m, err := soft.NewMemory(fileSize)
	must(t, err)
	h := &holder{Backend: m}
	s, err := soft.New(context.WithoutCancel(t.Context()), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: h, BlockSize: 512}}})
	must(t, err)
	c, err := libnvm.Open(s, libnvm.Config{})
	must(t, err)
	ns, err := c.Namespace(1)
	must(t, err)
	o := volume.NamespaceOptions{NoLock: true, Close: func() error { return errors.Join(c.Close(), s.Close()) }}
	if owned {
		o.Reset = c.Reset
	}
	member, err := volume.NewNamespace(c, ns, o)
	must(t, err)
	v, err := volume.Create([]volume.Member{member}, volume.Options{PageSize: 4096, Checksums: checksums})
	must(t, err)
	a, err := v.CreateArray("a", 16)
	must(t, err)
	return newFixture(t, v, a), h, c
}

// write writes a version of a page.
func (f *fixture) write(page, version uint64, timeout time.Duration) error {
	stamp(f.page(1), page, version)
	return f.q.Run(f.Context(), []volume.Request{{Array: f.a, Page: page, Write: true, Mem: f.mem, Offset: f.size}}, timeout)
}

// timeOut lets a write of page 0, version 1, time out and stay with the drive. A busy
// machine, too, has sent it by then.
func (f *fixture) timeOut(h *holder) {
	f.Helper()
	h.arm()
	var timeout *libnvm.TimeoutError
	if err := f.write(0, 1, 300*time.Millisecond); !errors.As(err, &timeout) {
		f.Fatalf("a write that is held back: %v, want *TimeoutError", err)
	}
	if h.held() != 1 {
		f.Fatal("the write is not held back")
	}
}

// TestLateWriteDoesNotLandOverNewer: a write that timed out can land at any
// time until its controller was reset, so nothing newer may be built on its
// page before.
func TestLateWriteDoesNotLandOverNewer(t *testing.T) {
	for _, checksums := range []bool{false, true} {
		for _, owned := range []bool{false, true} {
			t.Run(fmt.Sprintf("checksums %v, owned %v", checksums, owned), func(t *testing.T) {
				f, h, c := heldVolume(t, checksums, owned)
				f.timeOut(h)
				f.refused()
				f.expect(0, 0) // the old content is as good as the new one
				h.letGo()
				for deadline := time.Now().Add(5 * time.Second); h.held() > 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				f.expect(0, 1) // it has landed, and is no corruption
				f.refused()    // the volume cannot know that it has
				if owned {
					must(t, f.v.Recover(t.Context()))
				} else {
					var unknown *volume.DurabilityError
					if err := f.v.Recover(t.Context()); !errors.Is(err, volume.ErrNoReset) || !errors.As(err, &unknown) {
						t.Fatalf("recovery of a controller that is not the volume's: %v, want ErrNoReset and *DurabilityError", err)
					}
					must(t, c.Reset())
				}
				must(t, f.write(0, 2, time.Minute))
				must(t, f.v.Flush())
				f.expect(0, 2)
				f.close()
			})
		}
	}
}

// refused checks that page 0 is fenced, for every queue, and nothing else is.
func (f *fixture) refused() {
	f.Helper()
	q, err := f.v.OpenQueue(4)
	must(f, err)
	stamp(f.page(3), 0, 2) // not page 1, which the late write still reads
	stamp(f.page(2), 5, 2)
	reqs := []volume.Request{{Array: f.a, Page: 0, Write: true, Mem: f.mem, Offset: 3 * f.size},
		{Array: f.a, Page: 5, Write: true, Mem: f.mem, Offset: 2 * f.size}}
	err = q.Run(f.Context(), reqs, time.Minute)
	var fenced *volume.FencedPageError
	if !errors.As(err, &fenced) || fenced.Page != 0 || fenced.Array != "a" || reqs[1].Err != nil {
		f.Fatalf("a write of a page that a late write may still change: %v, the other page %v; want *FencedPageError, nil", err, reqs[1].Err)
	}
	must(f, q.Close())
	f.expect(5, 2)
	var unknown *volume.DurabilityError
	if err := f.v.Flush(); !errors.As(err, &unknown) || len(unknown.Pages) != 1 || unknown.Pages[0].Page != 0 {
		f.Fatalf("flush with a write that may still land: %v, want *DurabilityError of page 0", err)
	}
}

// TestRecoverEndsAHeldWrite: after Recover a write that was held back all the
// time does not land any more.
func TestRecoverEndsAHeldWrite(t *testing.T) {
	f, h, _ := heldVolume(t, true, true)
	f.timeOut(h)
	time.AfterFunc(50*time.Millisecond, h.letGo) // the reset has to wait for it
	must(t, f.v.Recover(t.Context()))
	if h.held() != 0 {
		t.Fatal("the reset ended with a write that may still land")
	}
	must(t, f.write(0, 2, time.Minute))
	must(t, f.v.Flush())
	f.expect(0, 2)
	f.close()
}

// TestNoArrayOverAFence: the pages of a deleted array may be under a late write.
func TestNoArrayOverAFence(t *testing.T) {
	f, h, c := heldVolume(t, false, false)
	f.timeOut(h)
	must(t, f.a.Close())
	must(t, f.v.DeleteArray("a"))
	var fenced *volume.FencedPageError
	if _, err := f.v.CreateArray("b", 4); !errors.As(err, &fenced) {
		t.Fatalf("an array over a late write: %v, want *FencedPageError", err)
	}
	h.letGo()
	must(t, c.Reset())
	b, err := f.v.CreateArray("b", 4)
	must(t, err)
	f.a = b
	f.expect(0, 0)
	f.close()
}

// TestRecoverOfFiles: the controllers of OpenFiles are the volume's to reset,
// with queues in use by others and a command that never completes.
func TestRecoverOfFiles(t *testing.T) {
	fs := &faults{}
	o := volume.FilesOptions{Faults: func(i int) soft.Faults {
		if i == 1 {
			return fs
		}
		return nil
	}}
	v, err := volume.Create(openFiles(t, paths(t, 2), o), volume.Options{PageSize: 4096, Checksums: true})
	must(t, err)
	a, err := v.CreateArray("a", 16)
	must(t, err)
	f := newFixture(t, v, a)
	must(t, f.write(0, 1, time.Minute))
	must(t, f.write(1, 1, time.Minute))
	fs.set(func(*soft.CommandInfo) soft.Fault { return soft.Fault{Drop: true} })
	reqs := make([]volume.Request, 2)
	for i := range reqs {
		stamp(f.page(4+i), uint64(i), 2)
		reqs[i] = volume.Request{Array: a, Page: uint64(i), Write: true, Mem: f.mem, Offset: (4 + i) * f.size}
	}
	err = f.q.Run(t.Context(), reqs, time.Second) // in which a busy machine does the other write
	lost := 0                                     // which of the two is on member 1 is the layout's affair
	for i := range reqs {
		if reqs[i].Err != nil {
			lost = i
		}
	}
	var timeout *libnvm.TimeoutError
	if !errors.As(err, &timeout) || reqs[1-lost].Err != nil {
		t.Fatalf("one of two writes dropped: %v", err)
	}
	fs.fault.Store(nil)
	var fenced *volume.FencedPageError
	if err := f.write(uint64(lost), 3, time.Minute); !errors.As(err, &fenced) || fenced.Page != uint64(lost) {
		t.Fatalf("write after a time-out: %v, want *FencedPageError", err)
	}
	if err := f.mem.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		t.Errorf("free of memory in quarantine: %v, want ErrMemoryHeld", err)
	}
	must(t, v.Recover(t.Context()))
	must(t, v.Flush())
	must(t, f.write(uint64(lost), 3, time.Minute))
	must(t, v.Flush())
	f.expect(uint64(lost), 3)
	f.expect(uint64(1-lost), 2)
	f.close()
}

// TestRecoverErrorComplete: only what a Recover says of all members lets those be used that it does
// not name.
func TestRecoverErrorComplete(t *testing.T) {
	members := []volume.ResetError{{Member: 1, Name: "b"}}
	fences := func(names ...string) *volume.DurabilityError {
		e := &volume.DurabilityError{}
		for _, n := range names {
			e.Pages = append(e.Pages, volume.FencedPageError{Member: n})
		}
		return e
	}
	for name, x := range map[string]struct {
		e    volume.RecoverError
		want bool
	}{
		"no fences":          {volume.RecoverError{Members: members}, true},
		"its own fences":     {volume.RecoverError{Members: members, Rest: fences("b", "b")}, true},
		"another's fence":    {volume.RecoverError{Members: members, Rest: fences("b", "a")}, false},
		"others not tried":   {volume.RecoverError{Members: members, Rest: context.Canceled}, false},
		"fences of nobody's": {volume.RecoverError{Rest: fences("a")}, false},
	} {
		if x.e.Complete() != x.want {
			t.Errorf("%s: %v", name, !x.want)
		}
	}
}
