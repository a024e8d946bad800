package devicetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

const (
	softThreads = 12
	softBuffer  = 64 << 10
)

// world is a software controller with queues for a foreign host.
type world struct {
	soft       *soft.Controller
	controller *libnvm.Controller
	args       []string
}

func newWorld(t *testing.T, queues, depth int, faults soft.Faults) *world {
	t.Helper()
	m, err := soft.NewMemory(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := soft.New(context.WithoutCancel(t.Context()), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: m}}, Threads: 2, MaxTransfer: 32 << 10, Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s.Close()) })
	c, err := libnvm.Open(s, libnvm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c.Close()) })
	w := &world{soft: s, controller: c}
	for i := range queues {
		q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: depth})
		if err != nil {
			t.Fatal(err)
		}
		l := q.Layout()
		w.set(fmt.Sprint("sq", i), l.SQIOVA)
		w.set(fmt.Sprint("cq", i), l.CQIOVA)
		w.set(fmt.Sprint("sqdb", i), uint64(l.SQDoorbellOffset))
		w.set(fmt.Sprint("cqdb", i), uint64(l.CQDoorbellOffset))
	}
	data, err := s.Alloc(softThreads*softBuffer + softThreads*4096)
	if err != nil {
		t.Fatal(err)
	}
	at, err := data.IOVA(0)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	w.set("queues", uint64(queues))
	w.set("depth", uint64(depth))
	w.set("payload", at)
	w.set("lists", at+softThreads*softBuffer)
	w.set("bytes", softBuffer)
	w.set("threads", softThreads)
	w.set("size", at+softThreads*(softBuffer+4096)-1<<32)
	w.set("blocks", ns.Blocks)
	w.set("block_size", uint64(ns.BlockSize))
	w.set("max_blocks", uint64(32<<10/ns.BlockSize))
	return w
}

func closed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func (w *world) set(key string, v uint64) { w.args = append(w.args, fmt.Sprintf("%s=%d", key, v)) }

// run has the device code do I/O in a process of its own.
func (w *world) run(t *testing.T, bin string, more ...string) {
	t.Helper()
	f, _, err := w.soft.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { closed(t, f.Close()) }()
	if err := trial(t, bin, 2*time.Minute, append(w.args, more...), f); err != nil {
		t.Error(err)
	}
	if st := w.soft.Stats(); st.DoorbellRange+st.DoorbellBackward != 0 {
		t.Errorf("doorbells: %+v", st)
	}
}

// TestSoft: threads share queues of libnvm's software controller.
func TestSoft(t *testing.T) {
	for _, b := range []build{plain, threads} {
		bin := program(t, "soft.cpp", b)
		for _, row := range []struct{ queues, depth int }{{1, 2}, {1, 3}, {2, 16}, {4, 64}} {
			t.Run(fmt.Sprintf("%s/%dx%d", b.Name, row.queues, row.depth), func(t *testing.T) {
				w := newWorld(t, row.queues, row.depth, nil)
				before := w.soft.Stats().Commands
				w.run(t, bin, "rounds=40", "deadline=60000", fmt.Sprint("seed=", rand.Uint32()))
				if n := w.soft.Stats().Commands - before; n < softThreads*40 {
					t.Errorf("the controller has seen %d commands", n)
				}
			})
		}
	}
}

// plan makes a fault plan with a seed that the log tells.
func plan(t *testing.T, rules ...soft.Rule) *soft.FaultPlan {
	t.Helper()
	p, err := soft.NewFaultPlan(rand.Uint64(), rules...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { t.Log(p) })
	return p
}

// TestSoftFaults: completions in the worst order that is allowed change
// nothing, and failed or lost commands are errors without torn data elsewhere.
func TestSoftFaults(t *testing.T) {
	bin := program(t, "soft.cpp", plain)
	disorder := []soft.Rule{
		{Name: "held", Probability: 0.1, Fault: soft.Fault{Hold: 3}},
		{Name: "torn", Probability: 0.1, Fault: soft.Fault{Torn: true}},
		{Name: "stale head", Probability: 0.1, Fault: soft.Fault{StaleHead: true}},
	}
	t.Run("disorder", func(t *testing.T) {
		p := plan(t, disorder...)
		newWorld(t, 2, 16, p).run(t, bin, "rounds=60", "deadline=60000", fmt.Sprint("seed=", rand.Uint32()))
		for i, n := range p.Fired() {
			if n == 0 {
				t.Errorf("nothing was %s", disorder[i].Name)
			}
		}
	})
	t.Run("failing", func(t *testing.T) {
		p := plan(t, soft.Rule{Name: "failed", Probability: 0.05, Fault: soft.Fault{Status: libnvm.StatusDataTransferError}})
		newWorld(t, 2, 16, p).run(t, bin, "rounds=60", "faults=1", "deadline=60000", fmt.Sprint("seed=", rand.Uint32()))
		if p.Fired()[0] == 0 {
			t.Error("nothing has failed")
		}
	})
	t.Run("dropping", func(t *testing.T) {
		p := plan(t, soft.Rule{Name: "dropped", Nth: 50, Limit: 3, Fault: soft.Fault{Drop: true}})
		newWorld(t, 2, 16, p).run(t, bin, "rounds=40", "faults=1", "deadline=500", fmt.Sprint("seed=", rand.Uint32()))
		if p.Fired()[0] == 0 {
			t.Error("nothing was dropped")
		}
	})
	t.Run("unplugged", func(t *testing.T) {
		w := newWorld(t, 2, 16, plan(t, soft.Rule{Name: "gone", Nth: 100, Limit: 1, Fault: soft.Fault{Gone: true}}))
		begun := time.Now()
		w.run(t, bin, "rounds=1000000", "faults=1", "deadline=500", fmt.Sprint("seed=", rand.Uint32()))
		if d := time.Since(begun); d > time.Minute {
			t.Errorf("it took %v to notice that the drive is gone", d)
		}
		w.soft.Revive()
	})
}
