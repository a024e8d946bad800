package bamio_test

import (
	"testing"

	"github.com/tritier/tritier/bamio"
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
