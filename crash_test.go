package tritier_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier/gpu/gpufake"
)

// crashStore, in the environment, makes this test binary the program that is killed;
// crashEngine says with which engine.
const (
	crashStore  = "TRITIER_TEST_CRASH_STORE"
	crashEngine = "TRITIER_TEST_CRASH_ENGINE"
)

// crashElements are on 64 pages, many more than the tiers hold.
const crashElements = 64 * page / 8

func crashConfig(store, engine string) tritier.Config {
	return tritier.Config{Store: store, Create: true, PageSize: page, Checksums: engine == tritier.EngineHost, T1: 3 * page, T2: 4 * page, Buffers: 4 * page, GPU: "none"}
}

// onFake has kernels decide, on a software GPU, in tiers that have half of the pages, so
// that not much is safe without a Flush.
func onFake(c tritier.Config) (tritier.Config, error) {
	fake := cudafake.New()
	gpufake.Register(fake)
	var err error
	c.Engine, c.GPU, c.Policy = tritier.EngineGPU, "0", "tier-order{t1=clock,t2=fifo,t2copy=keep}"
	c.T1, c.T2 = 12*page, 20*page
	c.Driver, err = cuda.OpenBackend(fake)
	return c, err
}

// crashChild writes rounds of values, value r<<32|i to some elements i, and after
// each Flush says which round is durable, until it is killed.
func crashChild(store, engine string) error {
	ctx := context.Background()
	c := crashConfig(store, engine)
	if engine == tritier.EngineGPU {
		var err error
		if c, err = onFake(c); err != nil {
			return err
		}
	}
	m, err := tritier.Open(ctx, c)
	if err != nil {
		return err
	}
	a, err := tritier.NewArray[uint64](ctx, m, "a", crashElements)
	if err != nil {
		return err
	}
	for r := uint64(1); ; r++ {
		idx, val := crashRound(r)
		if err := a.Scatter(ctx, idx, val); err != nil {
			return err
		}
		if r%3 == 0 {
			if err := m.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(r)
		}
	}
}

// crashRound is what round r writes.
func crashRound(r uint64) (idx, val []uint64) {
	rng := rand.New(rand.NewPCG(r, 0))
	for range 40 {
		i := rng.Uint64N(crashElements)
		idx, val = append(idx, i), append(val, r<<32|i)
	}
	return idx, val
}

// TestKill: after kill -9 at any moment, everything that a Flush covered is there, or
// what was written over it later, and the store is sound; also where kernels decided.
func TestKill(t *testing.T) {
	if store := os.Getenv(crashStore); store != "" {
		t.Fatal(crashChild(store, os.Getenv(crashEngine)))
	}
	t.Run(tritier.EngineHost, func(t *testing.T) { kill(t, tritier.EngineHost) })
	t.Run(tritier.EngineGPU, func(t *testing.T) {
		if !gpufake.Available {
			t.Skip("the kernels on a CPU need cgo")
		}
		kill(t, tritier.EngineGPU)
	})
}

func kill(t *testing.T, engine string) {
	kills := 6
	if engine == tritier.EngineGPU {
		kills = 3 // the store is the same
	}
	if testing.Short() {
		kills = 2
	}
	for n := range kills {
		store := "file:" + filepath.Join(t.TempDir(), "s") + "?size=4MiB"
		durable := killed(t, store, engine, time.Duration(n+1)*150*time.Millisecond)
		m := open(t, crashConfig(store, engine))
		a, err := tritier.OpenArray[uint64](t.Context(), m, "a")
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint64, crashElements)
		if err := a.Read(t.Context(), 0, got); err != nil {
			t.Errorf("round %d was durable: %v", durable, err)
		}
		want := make([]uint64, crashElements)
		for r := uint64(1); r <= durable; r++ {
			idx, val := crashRound(r)
			for i := range idx {
				want[idx[i]] = val[i]
			}
		}
		for i, v := range got {
			if v < want[i] || v != 0 && v&(1<<32-1) != uint64(i) {
				t.Fatalf("element %d is %#x; round %d, which was durable, left %#x", i, v, durable, want[i])
			}
		}
		closeMemory(t, m)
	}
}

// killed runs the child, kills it a while after its first flush and returns the last
// round that it called durable.
func killed(t *testing.T, store, engine string, after time.Duration) (durable uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), crashStore+"="+store, crashEngine+"="+engine)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	giveUp := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscan(lines.Text(), &durable); err != nil {
			t.Log(lines.Text())
		}
		if timer == nil {
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // it was killed
	if durable == 0 {
		t.Fatal("the child flushed nothing within a minute")
	}
	return durable
}
