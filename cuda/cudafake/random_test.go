package cudafake

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/cuda"
)

// TestRandomPrograms runs random work on several streams, with events where
// one stream uses what another wrote, against the same work done at once in
// the order of the calls: the contents must be the same under every seed.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomProgram(t, seed) })
	}
}

func randomProgram(t *testing.T, seed uint64) {
	const streams, buffers, size = 4, 6, 4096
	r := newRaw(t, Seed(seed))
	rng := rand.New(rand.NewPCG(seed, 99))
	var on, bufs [8]uintptr
	var model [buffers][]byte
	var user [buffers]int // the stream that used the buffer last
	for i := range streams {
		on[i] = r.stream()
	}
	for i := range buffers {
		bufs[i], model[i] = r.alloc(size), bytes.Repeat([]byte{Poison}, size)
	}
	e := r.event()
	use := func(s, b int) {
		if user[b] != s { // hand the buffer over
			r.ok(cuda.SymEventRecord, e, on[user[b]])
			r.ok(cuda.SymStreamWaitEvent, on[s], e, 0)
			user[b] = s
		}
	}
	for range 300 {
		s, d, b := rng.IntN(streams), rng.IntN(buffers), rng.IntN(buffers)
		at, n := rng.IntN(size/2), 1+rng.IntN(size/2)
		use(s, d)
		switch rng.IntN(3) {
		case 0:
			v := byte(rng.Uint32())
			r.ok(cuda.SymMemsetD8Async, bufs[d]+uintptr(at), uintptr(v), uintptr(n), on[s])
			fill(model[d][at:][:n], v)
		case 1:
			src := random(rng.Uint64(), n)
			r.ok(cuda.SymMemcpyHtoDAsync, bufs[d]+uintptr(at), addr(src), uintptr(n), on[s])
			copy(model[d][at:], src)
		case 2:
			if b == d {
				continue
			}
			use(s, b)
			r.ok(cuda.SymMemcpyDtoDAsync, bufs[d]+uintptr(at), bufs[b], uintptr(n), on[s])
			copy(model[d][at:][:n], model[b])
		}
		if rng.IntN(20) == 0 {
			r.sync(on[rng.IntN(streams)])
		}
	}
	r.ok(cuda.SymCtxSynchronize)
	for i := range buffers {
		if !bytes.Equal(view(bufs[i], size), model[i]) {
			t.Errorf("buffer %d differs from the model", i)
		}
	}
	r.clean()
}
