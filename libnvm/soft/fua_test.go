package soft_test

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// watched is a backend that notes the operations that reach it.
type watched struct {
	soft.Backend
	mu   sync.Mutex
	seen []soft.Op
}

type watchedChannel struct {
	soft.Channel
	w *watched
}

func (w *watched) Open() (soft.Channel, error) {
	ch, err := w.Backend.Open()
	return &watchedChannel{ch, w}, err
}

func (c *watchedChannel) Start(op *soft.Op) bool {
	c.w.mu.Lock()
	c.w.seen = append(c.w.seen, soft.Op{Kind: op.Kind, FUA: op.FUA, Offset: op.Offset, Length: op.Length})
	c.w.mu.Unlock()
	return c.Channel.Start(op)
}

// TestFUAReachesTheBackend: from Request.FUA to Op.FUA, for what writes, also
// over a command that the thread has used for another before.
func TestFUAReachesTheBackend(t *testing.T) {
	file, err := soft.OpenFile(filepath.Join(t.TempDir(), "disk"), soft.FileOptions{Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Backend: file}
	s := start(t, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: w, BlockSize: 4096}}})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 2})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	var want []bool
	for _, op := range []libnvm.Opcode{libnvm.OpWrite, libnvm.OpWriteZeroes, libnvm.OpWrite} {
		for _, fua := range []bool{true, false, true} {
			err = errors.Join(err, q.Do(&libnvm.Request{Op: op, NS: ns, LBA: 1, Blocks: 1, Mem: m, FUA: fua}))
			want = append(want, fua)
		}
	}
	err = errors.Join(err, q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 1, Mem: m}), q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns}))
	want = append(want, false, false)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []bool
	for _, op := range w.seen {
		got = append(got, op.FUA)
	}
	if !slices.Equal(got, want) {
		t.Errorf("FUA of the operations is %v, want %v", got, want)
	}
}
