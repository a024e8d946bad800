package soft_test

import (
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
)

// TestCPUTime: what a busy thread uses is counted, close to the time that passes
// when nothing else runs and never more, and it stays once the thread has ended.
func TestCPUTime(t *testing.T) {
	s := start(t, 1<<20, soft.Config{})
	c := bringUp(t, s, libnvm.Config{})
	ns, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Alloc(512 << 10)
	if err != nil {
		t.Fatal(err)
	}
	used, begun := s.CPUTime(), time.Now()
	for s.CPUTime() < used+10*time.Millisecond {
		if err := q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, Blocks: 128, Mem: m}); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%v of a processor within %v of work", s.CPUTime()-used, time.Since(begun))
		}
	}
	if d, most := s.CPUTime()-used, time.Since(begun); d > most {
		t.Errorf("one thread used %v of a processor within %v", d, most)
	}
}

// TestCPUTimeLasts: it is the same after the threads have ended.
func TestCPUTimeLasts(t *testing.T) {
	m, err := soft.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s, err := soft.New(t.Context(), soft.Config{Namespaces: []soft.NamespaceConfig{{Backend: m}}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	before := s.CPUTime()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := s.CPUTime()
	if before <= 0 || after < before || s.CPUTime() != after {
		t.Errorf("%v before Close, %v and then %v after", before, after, s.CPUTime())
	}
}

// TestIdleCost: a controller without work hardly uses a processor. At 100 looks a
// second each, two threads take 0.2 % on plain Linux and some 2 % where every
// system call is expensive (a sandboxed kernel). Naps that do not grow, or threads
// that spin, take tens of per cent anywhere.
func TestIdleCost(t *testing.T) {
	s := start(t, 1<<20, soft.Config{Threads: 2})
	c := bringUp(t, s, libnvm.Config{})
	for range 32 {
		if _, err := c.CreateQueuePair(libnvm.QueueConfig{Depth: 64}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(300 * time.Millisecond) // the back-off takes its time
	least := 1.0
	for range 3 { // a wake-up costs more while other programs run
		used, begun := s.CPUTime(), time.Now()
		time.Sleep(500 * time.Millisecond)
		least = min(least, float64(s.CPUTime()-used)/float64(time.Since(begun)))
	}
	t.Logf("%.2f %% of a processor", 100*least)
	if least > 0.08 {
		t.Errorf("two idle threads use %.2f %% of a processor, want less than 8 %%", 100*least)
	}
}
