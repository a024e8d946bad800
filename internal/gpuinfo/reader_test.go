package gpuinfo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeNVML counts its shares and answers from tables.
type fakeNVML struct {
	open    atomic.Int32 // shares taken and not given back
	refuse  error        // what taking a share answers
	gpus    map[string]*fakeGPU
	entered chan struct{} // told when a device call starts to hang
	hang    chan struct{} // device calls wait for it, if there is one
}

func (f *fakeNVML) take() (library, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.open.Add(1)
	return &fakeShare{nvml: f}, nil
}

type fakeShare struct {
	nvml *fakeNVML
	once sync.Once
}

func (s *fakeShare) gpu(address string) (gpu, error) {
	if s.nvml.hang != nil {
		s.nvml.entered <- struct{}{}
		<-s.nvml.hang
	}
	if g := s.nvml.gpus[address]; g != nil {
		return g, nil
	}
	return nil, &UnavailableError{What: "nvmlDeviceGetHandleByPciBusId_v2", Reason: Refused, Detail: "not found"}
}

func (s *fakeShare) driverVersion() (string, error) { return "580.1", nil }

func (s *fakeShare) close() error {
	s.once.Do(func() { s.nvml.open.Add(-1) })
	return nil
}

type fakeGPU struct {
	noLink   error
	nodeList []int
}

func (g *fakeGPU) uuid() (string, error)             { return "GPU-1", nil }
func (g *fakeGPU) currentLink() (Link, error)        { return Link{1, 16}, g.noLink }
func (g *fakeGPU) maxLink() (Link, error)            { return Link{4, 16}, g.noLink }
func (g *fakeGPU) ownGeneration() (int, error)       { return 5, nil }
func (g *fakeGPU) replays() (uint64, error)          { return 7, nil }
func (g *fakeGPU) utilisation() (Utilisation, error) { return Utilisation{50, 20}, nil }
func (g *fakeGPU) memory() (Memory, error)           { return Memory{100, 60, 40}, nil }
func (g *fakeGPU) bar1() (Memory, error)             { return Memory{200, 190, 10}, nil }
func (g *fakeGPU) temperature() (int, error)         { return 42, nil }
func (g *fakeGPU) ecc() (ECC, error)                 { return ECC{3, 1}, nil }
func (g *fakeGPU) throughput() (Throughput, error)   { return Throughput{5000, 6000}, nil }
func (g *fakeGPU) nodes() ([]int, error)             { return g.nodeList, nil }
func (g *fakeGPU) cpus() ([]int, error)              { return []int{0, 1}, nil }

const address = "0000:01:00.0"

func TestQuery(t *testing.T) {
	sys := gpuTree(t, nil)
	f := &fakeNVML{gpus: map[string]*fakeGPU{address: {nodeList: []int{3}}}}
	r := &Reader{sys: sys, open: f.take}
	i, err := r.Query(t.Context(), "00000000:01:00.0")
	if err != nil {
		t.Fatal(err)
	}
	if i.Address != address || i.UUID != known("GPU-1", NVML) || i.Current != known(Link{1, 16}, NVML) || i.Max != known(Link{4, 16}, NVML) ||
		i.OwnGeneration != known(5, NVML) || i.Replays != known(uint64(7), NVML) || i.Utilisation != known(Utilisation{50, 20}, NVML) ||
		i.Memory != known(Memory{100, 60, 40}, NVML) || i.Temperature != known(42, NVML) || i.ECC != known(ECC{3, 1}, NVML) ||
		i.BAR1 != known(Memory{200, 190, 10}, NVML) || i.NUMANode != known(3, NVML) || !slices.Equal(i.CPUs.Value, []int{0, 1}) || i.CPUs.Source != NVML {
		t.Errorf("%+v", i)
	}
	if i.Regions.Source != Sysfs || len(i.Regions.Value) != 3 { // NVML does not list them
		t.Errorf("regions %+v", i.Regions)
	}
	if got, err := r.Throughput(t.Context(), address); err != nil || got != (Throughput{5000, 6000}) {
		t.Errorf("throughput %v, %v", got, err)
	}
	if v, err := r.NVML(t.Context()); v != "580.1" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	if n := f.open.Load(); n != 1 {
		t.Errorf("%d shares of NVML are held between calls, want the Reader's own", n)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || f.open.Load() != 0 {
		t.Errorf("after Close: %v, %d shares", err, f.open.Load())
	}
	_, errQuery := r.Query(t.Context(), address)
	_, errNVML := r.NVML(t.Context())
	_, errThroughput := r.Throughput(t.Context(), address)
	for _, err := range []error{errQuery, errNVML, errThroughput} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// What NVML does not answer comes from sysfs, and says so.
func TestQueryMixesSources(t *testing.T) {
	refused := &UnavailableError{What: "nvmlDeviceGetCurrPcieLinkGeneration", Reason: Refused, Detail: "Not Supported"}
	f := &fakeNVML{gpus: map[string]*fakeGPU{address: {noLink: refused, nodeList: []int{0, 1}}}}
	r := &Reader{sys: gpuTree(t, nil), open: f.take}
	defer r.Close()
	i, err := r.Query(t.Context(), address)
	if err != nil || i.Current != known(Link{4, 8}, Sysfs) || i.NUMANode != known(1, Sysfs) || i.Temperature != known(42, NVML) {
		t.Errorf("%+v, %v", i, err)
	}
	if n := f.open.Load(); n != 1 {
		t.Errorf("%d shares", n)
	}
}

func TestQueryWithoutNVML(t *testing.T) {
	for _, reason := range []Reason{NoCgo, NoLibrary, Refused} {
		f := &fakeNVML{refuse: &UnavailableError{What: "NVML", Reason: reason}}
		r := &Reader{sys: gpuTree(t, nil), open: f.take}
		i, err := r.Query(t.Context(), address)
		if err != nil || i.Current != known(Link{4, 8}, Sysfs) || i.BAR1 != known(Memory{Total: 256 << 30}, Sysfs) {
			t.Errorf("%s: %+v, %v", reason, i, err)
		}
		_, errThroughput := r.Throughput(t.Context(), address)
		_, errNVML := r.NVML(t.Context())
		for _, err := range []error{i.Temperature.Err, i.UUID.Err, i.Memory.Err, i.ECC.Err, i.Utilisation.Err, i.Replays.Err, errThroughput, errNVML} {
			var u *UnavailableError
			if !errors.As(err, &u) || u.Reason != reason || !errors.Is(err, ErrUnavailable) || u.Advice() == "" {
				t.Errorf("%s: got %v", reason, err)
			}
		}
		if i.Temperature.Known() || i.Temperature.Value != 0 {
			t.Errorf("%s: a temperature out of nowhere: %+v", reason, i.Temperature)
		}
		if _, err := r.Query(t.Context(), "0000:02:00.0"); !errors.As(err, new(*NotFoundError)) || !strings.Contains(err.Error(), string(reason)) {
			t.Errorf("%s: unknown address: %v", reason, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A GPU that sysfs hides, as sandboxes do, is NVML's alone.
func TestQueryWithoutSysfs(t *testing.T) {
	f := &fakeNVML{gpus: map[string]*fakeGPU{address: {noLink: &UnavailableError{What: "x", Reason: Refused}}}}
	r := &Reader{sys: t.TempDir(), open: f.take}
	defer r.Close()
	i, err := r.Query(t.Context(), address)
	if err != nil || i.UUID.Value != "GPU-1" || i.Current.Known() || !errors.Is(i.Current.Err, ErrUnavailable) {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestBadAddress(t *testing.T) {
	r := OpenWithoutNVML(gpuTree(t, nil))
	for _, a := range []string{"", "..", "../devices/0000:01:00.0", "0000:01:00.9", "1:0.0", "0000:01:00.0\n", "GPU-1"} {
		if _, err := r.Query(t.Context(), a); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%q: %v", a, err)
		}
	}
	if _, err := r.Query(t.Context(), "01:00.0"); err != nil {
		t.Errorf("an address without a domain: %v", err)
	}
}

// A driver that hangs holds up neither the caller beyond its deadline nor Close, and sysfs answers all the same.
func TestHang(t *testing.T) {
	f := &fakeNVML{gpus: map[string]*fakeGPU{address: {}}, entered: make(chan struct{}, 1), hang: make(chan struct{})}
	r := &Reader{sys: gpuTree(t, nil), open: f.take}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	i, err := r.Query(ctx, address)
	var u *UnavailableError
	if err != nil || i.Current != known(Link{4, 8}, Sysfs) || !errors.As(i.UUID.Err, &u) || u.Reason != Timeout || !errors.Is(i.UUID.Err, context.DeadlineExceeded) {
		t.Fatalf("%+v, %v", i, err)
	}
	<-f.entered
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := f.open.Load(); n != 1 {
		t.Errorf("%d shares while a call hangs, want its own", n)
	}
	close(f.hang)
	for end := time.Now().Add(5 * time.Second); f.open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the call that hung has not given its share back")
		}
	}
}

// Queries and Close at once leave no share behind. The race detector looks on.
func TestConcurrentClose(t *testing.T) {
	for range 50 {
		f := &fakeNVML{gpus: map[string]*fakeGPU{address: {}}}
		r := &Reader{sys: t.TempDir(), open: f.take}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if i == 2 {
					_ = r.Close()
					return
				}
				if _, err := r.Query(context.Background(), address); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := f.open.Load(); n != 0 {
			t.Fatalf("%d shares left", n)
		}
	}
}
