package soft_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// finishInline polls q and serves, unless the controller does, until n requests
// have ended.
func finishInline(t *testing.T, q *libnvm.QueuePair, server *soft.Server, n int) {
	t.Helper()
	done := make([]libnvm.Completion, 8)
	for end := time.Now().Add(10 * time.Second); n > 0; {
		k := q.Poll(done)
		for _, d := range done[:k] {
			if d.Err != nil {
				t.Fatal(d.Err)
			}
		}
		if n -= k; k == 0 && server != nil {
			server.Serve(time.Millisecond)
		} else if k == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests without an end after 10 s", n)
		}
	}
}

// TestLend is lendRounds over a file that can wait in the kernel and one that cannot.
func TestLend(t *testing.T) {
	for _, engine := range []soft.IOEngine{soft.EngineAuto, soft.EngineSync} {
		lendRounds(t, engine)
	}
}

// lendRounds writes and reads back on the caller's thread, several times over,
// with admin commands by the controller's own in between, on memory and a file.
func lendRounds(t *testing.T, engine soft.IOEngine) {
	f, err := soft.OpenFile(filepath.Join(t.TempDir(), "disk"), soft.FileOptions{Size: 1 << 20, BlockSize: 4096, Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, 0, soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: mem}, {Backend: f}}})
	c := bringUp(t, s, libnvm.Config{})
	buf, err := s.Alloc(32 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	var namespaces []*libnvm.Namespace
	for id := uint32(1); id <= 2; id++ {
		ns, err := c.Namespace(id)
		if err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, ns)
	}
	for round := range byte(3) {
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 64})
		if err != nil {
			t.Fatal(err)
		}
		server, err := s.Lend(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lend(0); err == nil {
			t.Fatal("the thread was lent twice")
		}
		for i, ns := range namespaces {
			want := bytes.Repeat([]byte{round + 1, byte(i), 3, 4}, len(buf.Bytes())/4)
			writeRead(t, q, server, ns, buf, want)
		}
		if err := server.Return(); err != nil {
			t.Fatal(err)
		}
		if err := server.Return(); err != nil || server.Serve(time.Millisecond) {
			t.Fatalf("after Return: %v, or it serves on", err)
		}
		for i, ns := range namespaces {
			writeRead(t, q, nil, ns, buf, bytes.Repeat([]byte{9, round, byte(i), 4}, len(buf.Bytes())/4))
		}
		if err := q.Close(); err != nil { // admin commands: the controller's own thread serves again
			t.Fatal(err)
		}
	}
}

// writeRead writes want, which buf holds, to ns and reads it back.
func writeRead(t *testing.T, q *libnvm.QueuePair, server *soft.Server, ns *libnvm.Namespace, buf *libnvm.Memory, want []byte) {
	t.Helper()
	copy(buf.Bytes(), want)
	for _, op := range []libnvm.Opcode{libnvm.OpWrite, libnvm.OpRead} {
		batch := make([]libnvm.Request, 32)
		for i := range batch {
			batch[i] = libnvm.Request{Op: op, NS: ns, LBA: uint64(i), Blocks: 1, Mem: buf, Offset: i * 4096}
		}
		if op == libnvm.OpRead {
			clear(buf.Bytes())
		}
		if _, n, err := q.SubmitBatch(batch); err != nil {
			t.Fatalf("%d taken: %v", n, err)
		}
		finishInline(t, q, server, len(batch))
	}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Fatalf("namespace %d: read what was not written", ns.ID)
	}
}

// TestLendAfterClose is an error, not a hang.
func TestLendAfterClose(t *testing.T) {
	mem, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := soft.New(context.Background(), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: mem}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lend(1); err == nil {
		t.Error("a thread that does not exist was lent")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lend(0); err == nil {
		t.Error("the thread of a closed controller was lent")
	}
}
