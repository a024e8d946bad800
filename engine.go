package tritier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/tier/host"
)

// tiers is T1 and T2 in memory of a copy engine: host.Engine. How elements are
// moved depends on whether the CPU reaches T1.
type tiers struct {
	name    string
	eng     copyeng.Engine
	q       copyeng.Queue
	t1, t2  *copyeng.Space
	page    int
	timeout time.Duration
	pairs   []copyeng.Pair // reused
	last    func() error   // what is closed after all else, or nil
	elements
}

// elements moves pieces of frames from and to buffers.
type elements interface {
	Accepts(b host.Buffer) error
	Load(dst host.Buffer, list []host.Piece) error
	Store(src host.Buffer, list []host.Piece) error
	close() error
}

// newTiers allocates both tiers.
func newTiers(eng copyeng.Engine, frames, slots, page int, timeout time.Duration) (*tiers, error) {
	t := &tiers{name: eng.Name(), eng: eng, page: page, timeout: timeout}
	var err error
	if t.q, err = eng.NewQueue(); err != nil {
		return nil, joinClose(err, eng.Close)
	}
	if t.t1, err = eng.Allocate(uint64(frames) * uint64(page)); err != nil {
		return nil, joinClose(fmt.Errorf("t1: %w", err), t.Close)
	}
	if t.t2, err = eng.AllocateHost(uint64(slots) * uint64(page)); err != nil {
		return nil, joinClose(fmt.Errorf("t2: %w", err), t.Close)
	}
	return t, nil
}

// Name says what carries T1.
func (t *tiers) Name() string { return t.name }

// Out copies frames to slots.
func (t *tiers) Out(list []host.Copy) error { return t.copy(copyeng.ToHost, list) }

// In copies slots to frames.
func (t *tiers) In(list []host.Copy) error { return t.copy(copyeng.ToDevice, list) }

func (t *tiers) copy(dir copyeng.Direction, list []host.Copy) error {
	for len(list) > 0 {
		n := min(len(list), copyeng.MaxPages)
		t.pairs = t.pairs[:0]
		for _, c := range list[:n] {
			t.pairs = append(t.pairs, copyeng.Pair{Host: uint32(c.Slot), Device: uint32(c.Frame)})
		}
		b := copyeng.Batch{Dir: dir, Host: t.t2, Device: t.t1, PageSize: t.page, Pairs: t.pairs}
		if _, err := t.q.Copy(&b); err != nil {
			return err
		}
		list = list[n:]
		if err := t.wait(); err != nil {
			return err
		}
	}
	return nil
}

func (t *tiers) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	return t.q.Wait(ctx)
}

// Close frees both tiers.
func (t *tiers) Close() error {
	var err error
	if t.elements != nil {
		err = t.elements.close()
	}
	err = joinClose(err, t.q.Close)
	for _, s := range []*copyeng.Space{t.t1, t.t2} {
		if s != nil {
			err = joinClose(err, s.Close)
		}
	}
	err = joinClose(err, t.eng.Close)
	if t.last != nil {
		err = joinClose(err, t.last)
	}
	return err
}

// inMemory moves elements when T1 is ordinary memory.
type inMemory struct {
	frames []byte
	page   int
}

var errNoGPU = errors.New("the buffer is GPU memory, but T1 is ordinary memory: open the Memory on that GPU")

// Accepts ordinary memory.
func (m inMemory) Accepts(b host.Buffer) error {
	if b.Bytes == nil {
		return errNoGPU
	}
	return nil
}

// Load copies pieces of frames to dst.
func (m inMemory) Load(dst host.Buffer, list []host.Piece) error {
	for _, p := range list {
		at := int(p.Frame)*m.page + int(p.Offset)
		copy(dst.Bytes[p.At:p.At+int64(p.Length)], m.frames[at:at+int(p.Length)])
	}
	return nil
}

// Store copies src to pieces of frames.
func (m inMemory) Store(src host.Buffer, list []host.Piece) error {
	for _, p := range list {
		at := int(p.Frame)*m.page + int(p.Offset)
		copy(m.frames[at:at+int(p.Length)], src.Bytes[p.At:p.At+int64(p.Length)])
	}
	return nil
}

func (inMemory) close() error { return nil }

// joinClose adds the error of closing something to err.
func joinClose(err error, close func() error) error { return errors.Join(err, close()) }
