package copyengtest

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tritier/tritier/copyeng"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// injector is a fault for each time that it was armed.
type injector struct {
	mu      sync.Mutex // protects pending
	pending []error
}

type injected struct{ n int }

func (e *injected) Error() string { return "injected fault" }

func (i *injector) arm() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	err := &injected{len(i.pending)}
	i.pending = append(i.pending, err)
	return err
}

func (i *injector) fault(*copyeng.Batch) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.pending) == 0 {
		return nil
	}
	err := i.pending[0]
	i.pending = i.pending[1:]
	return err
}

// withFaults adds to options what the case Faults needs of a Host engine.
func withFaults(o Options, workers int) Options {
	o.Faulty = func() (copyeng.Engine, func() error, error) {
		var i injector
		return copyeng.OpenHost(copyeng.HostOptions{Workers: workers, Fault: i.fault}), i.arm, nil
	}
	return o
}

func TestHost(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers int
	}{{"Alone", -1}, {"Default", 0}, {"Workers", 5}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.workers < 0 {
				t.Skip("the simplest way of copying: only without -short")
			}
			var mu sync.Mutex
			paths := map[copyeng.Path]int{}
			o := withFaults(Options{Short: testing.Short() || c.workers != 0}, c.workers)
			o.Paths = func(c copyeng.Choice) {
				mu.Lock()
				defer mu.Unlock()
				paths[c.Path]++
			}
			Run(t, func(*testing.T) copyeng.Engine { return copyeng.OpenHost(copyeng.HostOptions{Workers: c.workers}) }, o)
			if len(paths) != 2 || paths[copyeng.PathMemory] == 0 || paths[copyeng.PathNone] == 0 {
				t.Errorf("paths taken: %v", paths)
			}
		})
	}
}

// TestFar needs address space, not memory; the race detector would make it memory.
func TestFar(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("8 GiB of address space: only without -short and -race")
	}
	for _, c := range Cases() {
		if c.Name == "Far" {
			c.Check(t, func() copyeng.Engine { return copyeng.OpenHost(copyeng.HostOptions{}) }, Options{Far: true})
		}
	}
	runtime.GC()
}

// hostProbes counts what a Host engine and its user could leak.
func hostProbes(h *copyeng.Host) func() map[string]int64 {
	return func() map[string]int64 {
		device, host := h.Allocated()
		list := map[string]int64{"goroutines": int64(runtime.NumGoroutine()), "device bytes": int64(device), "host bytes": int64(host)}
		if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
			list["file descriptors"] = int64(len(fds))
		}
		return list
	}
}

func TestSoak(t *testing.T) {
	o := SoakOptions{Options: Options{MaxBytes: 16 << 20}, Batches: 100_000, MaxBatch: 128 << 10}
	if testing.Short() || raceDetector {
		o.Batches, o.MaxBytes, o.VerifyEvery = 2000, 8<<20, 500
	}
	h := copyeng.OpenHost(copyeng.HostOptions{})
	o.Probes = hostProbes(h)
	Soak(t, h, o)
	if device, host := h.Allocated(); device != 0 || host != 0 {
		t.Errorf("the soak left %d bytes of device and %d of host memory", device, host)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
