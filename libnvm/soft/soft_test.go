package soft_test

import (
	"bytes"
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start makes a controller over memory that ends with the test.
func start(t testing.TB, size int64, cfg soft.Config) *soft.Controller {
	t.Helper()
	if cfg.Namespaces == nil {
		m, err := soft.NewMemory(size)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Namespaces = []soft.NamespaceConfig{{Backend: m}}
	}
	s, err := soft.New(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bringUp brings up the driver over s.
func bringUp(t testing.TB, s libnvm.Transport, cfg libnvm.Config) *libnvm.Controller {
	t.Helper()
	c, err := libnvm.Open(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestWholePath(t *testing.T) {
	s := start(t, 16<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Bytes()[:4096] {
		m.Bytes()[i] = byte(i * 13)
	}
	if err := q.Do(&libnvm.Request{Op: libnvm.OpWrite, NS: ns, LBA: 77, Blocks: 1, Mem: m}); err != nil {
		t.Fatal(err)
	}
	if err := q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, LBA: 77, Blocks: 1, Mem: m, Offset: 4096}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bytes()[:4096], m.Bytes()[4096:]) {
		t.Fatal("what was read is not what was written")
	}
}
