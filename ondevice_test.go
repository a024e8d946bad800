package tritier_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier/gpu"
	"github.com/tritier/tritier/tier/gpu/gpufake"
	"github.com/tritier/tritier/tier/layout"
)

// onDevice runs f where kernels can orchestrate: the device's own code on CPU threads
// under a software GPU, and a real GPU if there is one.
func onDevice(t *testing.T, f func(t *testing.T)) {
	onGPU(t, func(t *testing.T, _ *cuda.Driver, fake *cudafake.GPU) {
		if fake != nil && !gpufake.Available {
			t.Skip("the kernels on a CPU need cgo")
		}
		if fake != nil {
			gpufake.Register(fake)
		}
		f(t)
	})
}

// TestContentsOnDevice: the same histories with kernels as orchestrator, also after
// Close and Open, then with either engine.
func TestContentsOnDevice(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		file := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
		for i, policy := range []string{"bypass", "tier-order{t1=clock,t2=fifo}", "random{t1=fifo}", "gmt-reuse{vtd-direct=64}", "tier-order{t1=clock,t2=fifo,t2copy=keep}"} {
			seed := rand.Uint64()
			t.Logf("%s: seed %d", policy, seed)
			c := tritier.Config{Store: "mem:4MiB,mem:4MiB", Create: true, PageSize: page, T1: 6 * page, T2: tritier.Size(i) * 4 * page,
				Buffers: 8 * page, Policy: policy, Engine: tritier.EngineGPU}
			if i == 2 {
				c.Store = file
			}
			m := openGPU(t, c)
			a, err := tritier.NewArray[uint64](t.Context(), m, "a", 51217)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]uint64, a.Len())
			rng := rand.New(rand.NewPCG(seed, 0))
			change(t, rng, a, want, 2)
			compare(t, a, want)
			d, s := m.Describe(), m.Stats()
			if !strings.Contains(d.Engine, "GPU-orchestrated") || s.Counters.T3Fetches == 0 || s.Edges[0].Pages == 0 {
				t.Errorf("%s\n%+v", d, s.Counters)
			}
			for edge, e := range s.Edges {
				timed := uint64(0)
				for _, n := range e.Moves {
					timed += n
				}
				if timed != e.Pages || (e.Time > 0) != (e.Pages > 0) {
					t.Errorf("edge %d: %d pages, %d of them timed, in %v", edge, e.Pages, timed, e.Time)
				}
			}
			closeMemory(t, m)
			if i != 2 {
				continue
			}
			c.Engine, c.Create, c.PageSize = tritier.EngineHost, false, 0
			m = openGPU(t, c)
			if a, err = tritier.OpenArray[uint64](t.Context(), m, "a"); err != nil {
				t.Fatal(err)
			}
			compare(t, a, want)
			change(t, rng, a, want, 1)
			if _, err := a.Ref(); !errors.Is(err, tritier.ErrNoRef) {
				t.Errorf("kernels get an array of the CPU's: %v", err)
			}
			closeMemory(t, m)
		}
	})
}

// TestOnDevice: arrays are dropped, pinned and given to kernels; what kernels cannot
// do is refused.
func TestOnDevice(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		c := tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, T2: 4 * page, Buffers: 8 * page, Policy: "tier-order{t1=clock,t2=fifo}", Engine: tritier.EngineGPU}
		m := openGPU(t, c)
		a, err := tritier.NewArray[uint32](t.Context(), m, "a", 20000)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Write(t.Context(), 0, make([]uint32, 20000)); err != nil {
			t.Fatal(err)
		}
		if err := a.Scatter(t.Context(), []uint64{5}, []uint32{99}); err != nil {
			t.Fatal(err)
		}
		r, err := a.Ref()
		if err != nil || r.Length != 20000 || r.ElementShift != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		p, err := a.Pin(t.Context(), 100, 2000)
		if err != nil || len(p.Addresses()) != 3 || p.Values() != nil {
			t.Fatalf("%v", err)
		}
		var pe *tritier.PinError
		if _, err := a.Pin(t.Context(), 0, 5000); !errors.As(err, &pe) || pe.Needs != 6 {
			t.Errorf("five pages of four frames: %v", err)
		}
		if err := errors.Join(p.Unpin(), p.Unpin()); err != nil {
			t.Error(err)
		}
		if err := m.DropArray(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		b, err := tritier.NewArray[uint32](t.Context(), m, "b", 20000)
		if err != nil {
			t.Fatal(err)
		}
		compareZero(t, b)
		if _, err := tritier.NewArray[[3]byte](t.Context(), m, "c", 10); err == nil {
			t.Error("elements of 3 bytes are given to kernels")
		}
		closeMemory(t, m)
		for _, policy := range []string{"tier-order{t1=lru}", "tier-order{t2=clock}", "adaptive"} {
			c.Policy = policy
			var bad *gpu.PolicyError
			if _, err := tritier.Open(t.Context(), c); !errors.As(err, &bad) {
				t.Errorf("%s: %v", policy, err)
			}
		}
		c.Policy, c.Checksums = "bypass", true
		var bad *tritier.ConfigError
		if _, err := tritier.Open(t.Context(), c); !errors.As(err, &bad) {
			t.Errorf("with checksums: %v", err)
		}
		c.Checksums, c.EventsEvery = false, -1
		if _, err := tritier.Open(t.Context(), c); !errors.As(err, &bad) {
			t.Errorf("events of one in -1: %v", err)
		}
	})
	file := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
	closeMemory(t, open(t, tritier.Config{Store: file, Create: true, Checksums: true, PageSize: page, T1: 4 * page}))
	onDevice(t, func(t *testing.T) {
		if _, err := tritier.Open(t.Context(), tritier.Config{Store: file, T1: 4 * page, Buffers: 8 * page, Engine: tritier.EngineGPU}); !errors.Is(err, volume.ErrChecksummed) {
			t.Errorf("a store with checksums: %v", err)
		}
	})
}

// compareZero: an array that was made where another had been holds nothing of it.
func compareZero(t *testing.T, a *tritier.Array[uint32]) {
	t.Helper()
	got := make([]uint32, a.Len())
	if err := a.Read(t.Context(), 0, got); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != 0 {
			t.Fatalf("element %d of a new array is %d", i, v)
		}
	}
}

// TestMovesOnDevice: who copies pages is as the configuration wants it, is said, and every
// byte is counted by the way that it went.
func TestMovesOnDevice(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		for moves, want := range map[string]string{"": "kernels: ", tritier.MovesKernel: "kernels: asked for", tritier.MovesCopyEngine: "copy engine, on request: asked for"} {
			m := openGPU(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 6 * page, T2: 8 * page, Buffers: 8 * page,
				Policy: "tier-order{t1=clock,t2=fifo}", Engine: tritier.EngineGPU, Moves: moves})
			a, err := tritier.NewArray[uint64](t.Context(), m, "a", 51217)
			if err != nil {
				t.Fatal(err)
			}
			expected := make([]uint64, a.Len())
			change(t, rand.New(rand.NewPCG(4, 4)), a, expected, 1)
			compare(t, a, expected)
			if d := m.Describe(); !strings.HasPrefix(d.Moves.ToDevice, want) || !strings.HasPrefix(d.Moves.ToHost, want) || !strings.Contains(d.String(), "pages to T1 by "+want) {
				t.Errorf("moves %q: %s", moves, d)
			}
			s := m.Stats()
			in, engine := int64(0), int64(0)
			for path, x := range s.Copies.ToDevice {
				if in += x.Bytes; path == tritier.PathCopyEngine {
					engine += x.Bytes
				}
			}
			if came := s.Edges[0].Bytes + s.Edges[3].Bytes; in != int64(came) || (engine > 0) != (moves == tritier.MovesCopyEngine) || (s.MovesCPU > 0) != (engine > 0) || s.MovesLost != 0 {
				t.Errorf("moves %q: %d bytes came to T1, and by paths %d, %d of them by the copy engine, which took %v; %v", moves, came, in, engine, s.MovesCPU, s.Copies)
			}
			closeMemory(t, m)
		}
	})
	s := tritier.Copies([2][layout.Ways]uint64{{1, 2, 3, 4, 5, 6}, {layout.Unanswered: 7}}, page)
	sum := int64(0)
	for _, x := range s.ToDevice {
		sum += x.Bytes
	}
	if len(s.ToDevice) != 5 || sum != 15*page || s.ToDevice[tritier.PathKernelRingFull].Bytes != 3*page || len(s.ToHost) != 0 {
		t.Errorf("copies that were not answered are no bytes that moved: %v", s)
	}
	var refused *tritier.ConfigError
	err := tritier.Config{Store: "mem:8MiB", T1: 1 << 20, Moves: "fast", Threads: 99}.Check()
	if !errors.As(err, &refused) || len(refused.Violations) != 2 || !strings.Contains(err.Error(), `moves: "fast": want auto, kernel or copy-engine`) {
		t.Error(err)
	}
	if err := (tritier.Config{Store: "mem:8MiB", T1: 1 << 20, Moves: tritier.MovesKernel}).Check(); err == nil || !strings.Contains(err.Error(), "engine host") {
		t.Error(err)
	}
}
