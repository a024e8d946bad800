package tritier_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier/layout"
)

// closedMemory is a Memory that was closed with what belongs to it.
type closedMemory struct {
	m *tritier.Memory
	a *tritier.Array[uint64]
	p *tritier.Pinned[uint64]
	b tritier.DeviceBuffer
}

// afterClose has every method of Memory, Array and Pinned by its name. Those that have an
// error return it; the others say what is wrong.
var afterClose = map[string]func(ctx context.Context, c *closedMemory) error{
	"Memory.Check":     func(_ context.Context, c *closedMemory) error { return c.m.Check() },
	"Memory.DropArray": func(ctx context.Context, c *closedMemory) error { return c.m.DropArray(ctx, "a") },
	"Memory.Flush":     func(ctx context.Context, c *closedMemory) error { return c.m.Flush(ctx) },
	"Memory.Observed":  func(ctx context.Context, c *closedMemory) error { _, err := c.m.Observed(ctx); return err },
	"Memory.Traced":    func(ctx context.Context, c *closedMemory) error { _, err := c.m.Traced(ctx); return err },
	"Memory.Watch": func(ctx context.Context, c *closedMemory) error {
		return c.m.Watch(ctx, bamio.WorkFunc(func() (bool, error) { return true, nil }))
	},
	"NewArray": func(ctx context.Context, c *closedMemory) error {
		_, err := tritier.NewArray[uint64](ctx, c.m, "b", 1)
		return err
	},
	"OpenArray": func(ctx context.Context, c *closedMemory) error {
		_, err := tritier.OpenArray[uint64](ctx, c.m, "a")
		return err
	},
	"Array.Gather": func(ctx context.Context, c *closedMemory) error {
		return c.a.Gather(ctx, []uint64{1}, make([]uint64, 1))
	},
	"Array.GatherTo":    func(ctx context.Context, c *closedMemory) error { return c.a.GatherTo(ctx, []uint64{1}, c.b) },
	"Array.Pin":         func(ctx context.Context, c *closedMemory) error { _, err := c.a.Pin(ctx, 0, 1); return err },
	"Array.Prefetch":    func(ctx context.Context, c *closedMemory) error { return c.a.Prefetch(ctx, []uint64{1}) },
	"Array.Read":        func(ctx context.Context, c *closedMemory) error { return c.a.Read(ctx, 0, make([]uint64, 1)) },
	"Array.ReadTo":      func(ctx context.Context, c *closedMemory) error { return c.a.ReadTo(ctx, 0, 1, c.b) },
	"Array.Ref":         func(_ context.Context, c *closedMemory) error { _, err := c.a.Ref(); return err },
	"Array.Scatter":     func(ctx context.Context, c *closedMemory) error { return c.a.Scatter(ctx, []uint64{1}, []uint64{1}) },
	"Array.ScatterFrom": func(ctx context.Context, c *closedMemory) error { return c.a.ScatterFrom(ctx, []uint64{1}, c.b) },
	"Array.Write":       func(ctx context.Context, c *closedMemory) error { return c.a.Write(ctx, 0, []uint64{1}) },
	"Array.WriteFrom":   func(ctx context.Context, c *closedMemory) error { return c.a.WriteFrom(ctx, 0, 1, c.b) },
	"Array.PrefetchRange": func(ctx context.Context, c *closedMemory) error {
		return c.a.PrefetchRange(ctx, 0, 1)
	},
	"Pinned.Unpin": func(_ context.Context, c *closedMemory) error { return c.p.Unpin() },
}

var errWrong = errors.New("not what a closed memory says")

func wrongUnless(ok bool) error {
	if ok {
		return nil
	}
	return errWrong
}

// alsoClosed are the methods that work after Close, or have no error.
var alsoClosed = map[string]func(ctx context.Context, c *closedMemory) error{
	"Memory.AccessError": func(_ context.Context, c *closedMemory) error {
		err := c.m.AccessError(1, 0, layout.WaitTimeout)
		var batch *tritier.BatchError
		return wrongUnless(errors.Is(err, tritier.ErrNoRef) || errors.As(err, &batch))
	},
	"Memory.Arrays": func(_ context.Context, c *closedMemory) error {
		list := c.m.Arrays()
		return wrongUnless(len(list) == 1 && list[0].Name == "a")
	},
	"Memory.Close":    func(ctx context.Context, c *closedMemory) error { return c.m.Close(ctx) },
	"Memory.Describe": func(_ context.Context, c *closedMemory) error { return wrongUnless(c.m.Describe().Engine != "") },
	"Memory.GPU":      func(_ context.Context, c *closedMemory) error { return wrongUnless(c.m.GPU() == nil) },
	"Memory.ServiceCPU": func(_ context.Context, c *closedMemory) error {
		_, known := c.m.ServiceCPU()
		return wrongUnless(known)
	},
	"Memory.Stats": func(_ context.Context, c *closedMemory) error {
		s := c.m.Stats()
		return wrongUnless(s.Counters.Accesses > 0 && s.Flushed > 0 && s.Edges[1].Pages > 0)
	},
	"Array.Len":        func(_ context.Context, c *closedMemory) error { return wrongUnless(c.a.Len() == 1000) },
	"Array.Name":       func(_ context.Context, c *closedMemory) error { return wrongUnless(c.a.Name() == "a") },
	"Pinned.Addresses": func(_ context.Context, c *closedMemory) error { return wrongUnless(c.p.Addresses() == nil) },
	"Pinned.Values":    func(_ context.Context, c *closedMemory) error { return wrongUnless(c.p.Values() == nil) },
}

// TestAfterClose: every call answers the same after Close, whoever decides.
func TestAfterClose(t *testing.T) {
	for _, v := range []any{(*tritier.Memory)(nil), (*tritier.Array[uint64])(nil), (*tritier.Pinned[uint64])(nil)} {
		of := map[reflect.Type]string{reflect.TypeFor[*tritier.Memory](): "Memory.", reflect.TypeFor[*tritier.Array[uint64]](): "Array.",
			reflect.TypeFor[*tritier.Pinned[uint64]](): "Pinned."}[reflect.TypeOf(v)]
		for i := range reflect.TypeOf(v).NumMethod() {
			name := of + reflect.TypeOf(v).Method(i).Name
			if (afterClose[name] == nil) == (alsoClosed[name] == nil) {
				t.Errorf("%s is in none or both of the tables: say what it answers after Close", name)
			}
		}
	}
	onFakeKernels(t, func(t *testing.T, _ *cudafake.GPU) {
		for name, c := range map[string]tritier.Config{
			"gpu": {Engine: tritier.EngineGPU, Policy: "tier-order{t1=clock,t2=fifo}"}, "host": {Engine: tritier.EngineHost},
			"host without a GPU": {Engine: tritier.EngineHost, GPU: "none"},
		} {
			t.Run(name, func(t *testing.T) { answersClosed(t, c) })
		}
	})
}

func answersClosed(t *testing.T, c tritier.Config) {
	c.Store, c.PageSize, c.T1, c.T2, c.Buffers = "mem:4MiB", page, 8*page, 4*page, 8*page
	c.Observe, c.Events = func(tritier.Access) {}, func(tritier.Event) {}
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	k := &closedMemory{m: m, b: tritier.DeviceBuffer{Ptr: 1 << 20, Size: 8}}
	if k.a, err = tritier.NewArray[uint64](t.Context(), m, "a", 1000); err != nil {
		t.Fatal(err)
	}
	if err := k.a.Write(t.Context(), 0, make([]uint64, 1000)); err != nil {
		t.Fatal(err)
	}
	if k.p, err = k.a.Pin(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	if len(k.p.Addresses()) != 1 {
		t.Errorf("addresses %v", k.p.Addresses())
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, call := range alsoClosed { // before Unpin, after which there is nothing to ask
		if err := call(t.Context(), k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range afterClose {
		if err := call(t.Context(), k); !errors.Is(err, tritier.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(ended, k); strings.HasPrefix(name, "Array.") && !errors.Is(err, tritier.ErrClosed) {
			t.Errorf("%s, with a context that has ended: %v", name, err)
		}
	}
}
