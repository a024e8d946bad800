package volume_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

// fuaWatch is a backend that counts what reaches it.
type fuaWatch struct {
	soft.Backend
	mu      sync.Mutex
	fua     int // writes that must be durable when they finish
	plain   int // other writes
	flushes int
}

type fuaChannel struct {
	soft.Channel
	w *fuaWatch
}

func (w *fuaWatch) Open() (soft.Channel, error) {
	c, err := w.Backend.Open()
	return &fuaChannel{c, w}, err
}

func (c *fuaChannel) Start(op *soft.Op) bool {
	c.w.mu.Lock()
	switch {
	case op.Kind == soft.OpFlush:
		c.w.flushes++
	case op.Kind == soft.OpWrite && op.FUA:
		c.w.fua++
	case op.Kind == soft.OpWrite:
		c.w.plain++
	}
	c.w.mu.Unlock()
	return c.Channel.Start(op)
}

// since returns what was counted since the last call.
func (w *fuaWatch) since() (fua, plain int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fua, plain = w.fua, w.plain
	w.fua, w.plain = 0, 0
	return fua, plain
}

// TestCommitsAreFUA: what a volume relies on after a power failure arrives at the
// drive as a write that is durable when it completes: the directory's commit, and
// the intent that goes before the data of a batch. The data itself does not.
func TestCommitsAreFUA(t *testing.T) {
	for _, checksums := range []bool{false, true} {
		m, err := soft.NewMemory(fileSize)
		must(t, err)
		w := &fuaWatch{Backend: m}
		s, err := soft.New(context.WithoutCancel(t.Context()), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: w, BlockSize: 512}}})
		must(t, err)
		c, err := libnvm.Open(s, libnvm.Config{})
		must(t, err)
		ns, err := c.Namespace(1)
		must(t, err)
		member, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{NoLock: true, Close: func() error { return errors.Join(c.Close(), s.Close()) }})
		must(t, err)
		v, err := volume.Create([]volume.Member{member}, volume.Options{PageSize: 4096, Checksums: checksums})
		must(t, err)
		w.since()
		a, err := v.CreateArray("a", 16)
		must(t, err)
		if fua, _ := w.since(); fua == 0 {
			t.Errorf("checksums %v: creating an array made no write with FUA, want the commit", checksums)
		}
		f := newFixture(t, v, a)
		w.since()
		must(t, f.q.Run(t.Context(), []volume.Request{{Array: a, Page: 3, Write: true, Mem: f.mem}}, 10*time.Second))
		want := 0
		if checksums {
			want = 1
		}
		if fua, plain := w.since(); fua != want || plain != 1 {
			t.Errorf("checksums %v: a batch of one page made %d writes with FUA and %d without, want %d and 1", checksums, fua, plain, want)
		}
		f.close()
	}
}
