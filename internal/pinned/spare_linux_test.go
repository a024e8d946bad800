package pinned

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Of a limit of the process the largest pool leaves a sixteenth, and at least 256 MiB; of addresses, room for threads too. The error names
// the limit and what it leaves.
func TestSpare(t *testing.T) {
	threads := 72 * mib * uint64(runtime.GOMAXPROCS(0)+8)
	for _, c := range []struct {
		line, limit string
		left, spare uint64
	}{
		{"Max address space 107374182400 unlimited bytes", LimitAddressSpace, 100 * gib, max(100*gib/16, 256*mib+threads)},
		{"Max address space 10737418240 unlimited bytes", LimitAddressSpace, 10 * gib, max(640*mib, 256*mib+threads)},
		{"Max data size 10737418240 unlimited bytes", LimitData, 10 * gib, 640 * mib},
		{"Max address space 2147483648 unlimited bytes", LimitAddressSpace, 2 * gib, 256*mib + threads},
		{"Max data size 300000000 unlimited bytes", LimitData, 300000000, 256 * mib},
		{"Max data size 268435456 unlimited bytes", LimitData, 256 * mib, 256 * mib},
		{"Max address space 4096 unlimited bytes", LimitAddressSpace, 4096, 256*mib + threads},
	} {
		l, err := LimitsOf(plenty().with("proc/self/limits", c.line, "proc/self/status", "VmSize:\t0 kB\nVmData:\t0 kB\n").fs())
		if err != nil {
			t.Fatal(err)
		}
		const round = 2 * mib // of addresses, for the alignment
		want := c.left - min(c.left, c.spare+round)
		if got := l.Largest(AnyNode); got != want {
			t.Errorf("%s: the largest pool has %d bytes, want %d", c.line, got, want)
		}
		err = l.Check(want+1, AnyNode)
		if got := limitNames(err); len(got) != 1 || got[0] != c.limit {
			t.Errorf("%s: a byte more fails with %v", c.line, err)
		}
		if err == nil || !strings.Contains(err.Error(), c.limit) || !strings.Contains(err.Error(), formatBytes(c.spare)+" for the program's heap and threads") {
			t.Errorf("%s: the error is %v", c.line, err)
		}
	}
}

const childVariable = "PINNED_TEST_CHILD"

// A program goes on when it has taken the largest pool that its limits allow. It does so in a process of its own, which Go ends where it
// does not.
func TestProgramGoesOnBesideTheLargestPool(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has memory of its own, which the limits were not made for")
	}
	for _, limit := range []string{LimitAddressSpace, LimitData} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLargestPoolChild$", "-test.v")
		// A few processors wherever it runs: what is left for threads, and with it the pool, grows with them.
		cmd.Env = append(os.Environ(), childVariable+"="+limit, "GOMAXPROCS=4")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestLargestPoolChild") {
			t.Errorf("%s: %v\n%.3000s", limit, err, out)
		}
	}
}

func TestLargestPoolChild(t *testing.T) {
	limit := os.Getenv(childVariable)
	if limit == "" {
		t.Skip("TestProgramGoesOnBesideTheLargestPool runs it in a process of its own")
	}
	before, err := Limits()
	if err != nil {
		t.Fatal(err)
	}
	resource, used := unix.RLIMIT_AS, before.VirtualSize
	if limit == LimitData {
		resource, used = unix.RLIMIT_DATA, before.DataSize
	}
	// Room for a pool beside every thread that the runtime may start in the meantime (its stack and C's heap).
	room := 192*mib + 72*mib*uint64(runtime.GOMAXPROCS(0)+2)
	most := used + spare(limit, 0) + room
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
	p := openLargest(t)
	// The heap grows by what a program may well need, and threads start.
	var heap [][]byte
	for range 200 {
		b := make([]byte, mib)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		heap = append(heap, b)
	}
	var group, started sync.WaitGroup
	begin := make(chan struct{})
	for range 6 {
		started.Add(1)
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-begin
			time.Sleep(time.Millisecond)
		})
	}
	started.Wait()
	close(begin)
	group.Wait()
	t.Logf("a pool of %d MiB beside %d MiB of heap", p.Stats().Size>>20, len(heap))
	runtime.KeepAlive(heap)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// openLargest opens the largest pool that the limits allow, less what two threads and the heap take that may grow between the reading of the
// limits and the pool. More of them may start just then, so that it reads again a few times.
func openLargest(t *testing.T) *Pool {
	t.Helper()
	const grown = 150 * mib
	var last error
	for range 8 {
		l, err := Limits()
		if err != nil {
			t.Fatal(err)
		}
		largest := l.Largest(AnyNode)
		if largest <= grown {
			t.Fatalf("the largest pool has %d bytes beside %d of addresses and %d of data in use", largest, l.VirtualSize, l.DataSize)
		}
		p, err := Open(t.Context(), Config{Size: largest - grown, Node: AnyNode})
		if err == nil {
			return p
		}
		last = fmt.Errorf("%d bytes: %w", largest-grown, err)
	}
	t.Fatal(last)
	return nil
}
