package volume_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/soft"
	"github.com/tritier/tritier/libnvm/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const fileSize = 8 << 20

func paths(t testing.TB, n int) (ps []string) {
	dir := t.TempDir()
	for i := range n {
		ps = append(ps, filepath.Join(dir, fmt.Sprintf("disk%d", i)))
	}
	return ps
}

func openFiles(t testing.TB, ps []string, o volume.FilesOptions) []volume.Member {
	t.Helper()
	o.File.Size = fileSize
	ms, err := volume.OpenFiles(context.WithoutCancel(t.Context()), ps, o)
	must(t, err)
	return ms
}

// fixture is a volume with one array, a queue and memory for 16 pages.
type fixture struct {
	testing.TB
	v    *volume.Volume
	a    *volume.Array
	q    *volume.Queue
	mem  *volume.Memory
	size int
}

func newFixture(t testing.TB, v *volume.Volume, a *volume.Array) *fixture {
	t.Helper()
	f := &fixture{TB: t, v: v, a: a, size: v.PageSize()}
	var err error
	f.q, err = v.OpenQueue(8)
	must(t, err)
	f.mem, err = v.Alloc(16 * f.size)
	must(t, err)
	return f
}

func (f *fixture) page(i int) []byte { return f.mem.Bytes()[i*f.size : (i+1)*f.size] }

func (f *fixture) close() {
	f.Helper()
	must(f, f.q.Close())
	must(f, f.mem.Free())
	must(f, f.a.Close())
	must(f, f.v.Close())
}

// TestVolumeOverFiles runs random batches against a model over the whole path:
// volume, driver, software controller, io_uring, files.
func TestVolumeOverFiles(t *testing.T) {
	for _, checksums := range []bool{false, true} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d files checksums %v", n, checksums), func(t *testing.T) {
				const pages, page, seed = 200, 8192, 5
				ps := paths(t, n)
				v, err := volume.Create(openFiles(t, ps, volume.FilesOptions{}), volume.Options{PageSize: page, Checksums: checksums, LogBytes: 8192})
				must(t, err)
				a, err := v.CreateArray("data", pages)
				must(t, err)
				f := newFixture(t, v, a)
				rng := rand.New(rand.NewPCG(seed, 0))
				model := make([]uint64, pages)
				for range 100 {
					f.batch(rng, model)
				}
				must(t, v.Flush())
				f.close()
				// Files have no order and no names.
				for i, p := range ps {
					must(t, os.Rename(p, p+"moved"))
					ps[i] = p + "moved"
				}
				slices.Reverse(ps)
				v, err = volume.Open(openFiles(t, ps, volume.FilesOptions{}))
				must(t, err)
				if v.Recovery().Unclean {
					t.Error("the volume was closed, and is called unclean")
				}
				a, err = v.OpenArray("data")
				must(t, err)
				f = newFixture(t, v, a)
				for p := range uint64(pages) {
					f.expect(p, model[p])
				}
				f.close()
			})
		}
	}
}

// stamp fills a page with a version; 0 is zeroes.
func stamp(p []byte, page, version uint64) {
	clear(p)
	for i := 0; version > 0 && i < len(p); i += 16 {
		binary.LittleEndian.PutUint64(p[i:], page)
		binary.LittleEndian.PutUint64(p[i+8:], version)
	}
}

// batch reads and writes some distinct pages and checks those that were read.
func (f *fixture) batch(rng *rand.Rand, model []uint64) {
	f.Helper()
	var reqs []volume.Request
	for i, p := range rng.Perm(len(model))[:1+rng.IntN(16)] {
		r := volume.Request{Array: f.a, Page: uint64(p), Write: rng.IntN(2) == 0, Mem: f.mem, Offset: i * f.size}
		if r.Write {
			model[p] = rng.Uint64() | 1
			stamp(f.page(i), uint64(p), model[p])
		}
		reqs = append(reqs, r)
	}
	must(f, f.q.Run(f.Context(), reqs, time.Minute))
	want := make([]byte, f.size)
	for i, r := range reqs {
		stamp(want, r.Page, model[r.Page])
		if !bytes.Equal(f.page(i), want) {
			f.Fatalf("page %d, write %v, differs from the model", r.Page, r.Write)
		}
	}
}

func (f *fixture) expect(page, version uint64) {
	f.Helper()
	must(f, f.q.Run(f.Context(), []volume.Request{{Array: f.a, Page: page, Mem: f.mem}}, time.Minute))
	want := make([]byte, f.size)
	stamp(want, page, version)
	if !bytes.Equal(f.page(0), want) {
		f.Fatalf("page %d does not hold version %d", page, version)
	}
}

func TestFilesAreLocked(t *testing.T) {
	ps := paths(t, 2)
	ms := openFiles(t, ps, volume.FilesOptions{})
	var locked *volume.LockedError
	if _, err := volume.OpenFiles(t.Context(), ps, volume.FilesOptions{}); !errors.As(err, &locked) {
		t.Errorf("files in use: %v, want *LockedError", err)
	}
	if !errors.Is(locked, volume.ErrOpenHere) || !strings.Contains(locked.Error(), "this process") {
		t.Errorf("files that this process serves: %v, want ErrOpenHere", locked)
	}
	for _, m := range ms {
		must(t, m.Close())
	}
	again := filepath.Join(filepath.Dir(ps[0]), ".", "link")
	must(t, os.Symlink(ps[0], again))
	if _, err := volume.OpenFiles(t.Context(), []string{ps[0], again}, volume.FilesOptions{}); !errors.Is(err, volume.ErrOpenHere) {
		t.Errorf("one file by two names: %v, want ErrOpenHere", err)
	}
	for _, m := range openFiles(t, ps, volume.FilesOptions{}) {
		must(t, m.Close())
	}
}

// TestLockIsTriedAgain: a process that was killed holds its locks for a moment
// longer.
func TestLockIsTriedAgain(t *testing.T) {
	ps := paths(t, 1)
	for _, m := range openFiles(t, ps, volume.FilesOptions{}) {
		must(t, m.Close())
	}
	f, err := os.OpenFile(ps[0], os.O_RDWR, 0)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	var locked *volume.LockedError
	if _, err := volume.OpenFiles(t.Context(), ps, volume.FilesOptions{}); !errors.As(err, &locked) || errors.Is(err, volume.ErrOpenHere) {
		t.Errorf("a file that another holds: %v, want *LockedError", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	for _, m := range openFiles(t, ps, volume.FilesOptions{}) {
		must(t, m.Close())
	}
}

// memoryNamespace is a controller over memory with one namespace.
func memoryNamespace(t testing.TB, cfg soft.Config, driver libnvm.Config) (*libnvm.Controller, *libnvm.Namespace, func() error) {
	t.Helper()
	m, err := soft.NewMemory(fileSize)
	must(t, err)
	cfg.Namespaces = []soft.NamespaceConfig{{Backend: m, BlockSize: 512}}
	s, err := soft.New(context.WithoutCancel(t.Context()), cfg)
	must(t, err)
	c, err := libnvm.Open(s, driver)
	must(t, err)
	ns, err := c.Namespace(1)
	must(t, err)
	return c, ns, func() error { return errors.Join(c.Close(), s.Close()) }
}

func TestNamespaceLockAndIdentity(t *testing.T) {
	dir := t.TempDir()
	c, ns, shut := memoryNamespace(t, soft.Config{Serial: "../A/1"}, libnvm.Config{})
	m, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: dir, Close: shut})
	must(t, err)
	if id := m.Identity(); id.Serial != "../A/1" || id.NSID != 1 || id.UUID == [16]byte{} {
		t.Errorf("identity %+v", id)
	}
	var locked *volume.LockedError
	if _, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: dir}); !errors.As(err, &locked) || locked.Owner == "" {
		t.Errorf("second member of one namespace: %v, want *LockedError with its owner", err)
	}
	must(t, m.Close())
	c, ns, shut = memoryNamespace(t, soft.Config{Serial: "../A/1"}, libnvm.Config{})
	m, err = volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: dir, Close: shut})
	must(t, err)
	must(t, m.Close())
}

// faults fails or drops page I/O while it is on.
type faults struct {
	fault atomic.Pointer[func(i *soft.CommandInfo) soft.Fault]
}

func (f *faults) set(fault func(i *soft.CommandInfo) soft.Fault) { f.fault.Store(&fault) }

func (f *faults) Command(i *soft.CommandInfo) soft.Fault {
	if fault := f.fault.Load(); fault != nil && i.Queue > 1 { // queue 1 is the volume's own
		return (*fault)(i)
	}
	return soft.Fault{}
}

// TestFaultsReachTheirPage: each page of a batch has its own result, by a typed
// error; silent corruption is caught.
func TestFaultsReachTheirPage(t *testing.T) {
	fs := &faults{}
	c, ns, shut := memoryNamespace(t, soft.Config{Faults: fs}, libnvm.Config{})
	m, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: t.TempDir(), Close: shut})
	must(t, err)
	v, err := volume.Create([]volume.Member{m}, volume.Options{PageSize: 4096, Checksums: true})
	must(t, err)
	a, err := v.CreateArray("a", 16)
	must(t, err)
	f := newFixture(t, v, a)
	var reqs []volume.Request
	for p := range uint64(16) {
		stamp(f.page(int(p)), p, 1)
		reqs = append(reqs, volume.Request{Array: a, Page: p, Write: true, Mem: f.mem, Offset: int(p) * 4096})
	}
	must(t, f.q.Run(t.Context(), reqs, time.Minute))
	for i := range reqs {
		reqs[i].Write = false
	}
	seq := uint64(0)
	fs.set(func(i *soft.CommandInfo) soft.Fault { // one thread serves the queue
		seq++
		switch seq % 4 {
		case 1:
			return soft.Fault{Status: libnvm.StatusUnrecoveredRead}
		case 2:
			return soft.Fault{Corrupt: true}
		}
		return soft.Fault{}
	})
	err = f.q.Run(t.Context(), reqs, time.Minute)
	if err == nil {
		t.Fatal("a batch with failed pages succeeded")
	}
	var failed, corrupt, good int
	for i := range reqs {
		var status *libnvm.StatusError
		var sum *volume.CorruptPageError
		switch {
		case errors.As(reqs[i].Err, &status) && status.Status == libnvm.StatusUnrecoveredRead:
			failed++
		case errors.As(reqs[i].Err, &sum) && sum.Page == reqs[i].Page:
			corrupt++
		case reqs[i].Err == nil:
			good++
		default:
			t.Errorf("page %d: %v", i, reqs[i].Err)
		}
	}
	if failed != 4 || corrupt != 4 || good != 8 {
		t.Errorf("%d failed, %d corrupt, %d good of 16; want 4, 4, 8", failed, corrupt, good)
	}
	f.close()
}

// TestDroppedCompletion: a page whose completion never comes ends at the
// deadline, and its memory is not given back while the drive may use it.
func TestDroppedCompletion(t *testing.T) {
	fs := &faults{}
	c, ns, shut := memoryNamespace(t, soft.Config{Faults: fs}, libnvm.Config{})
	m, err := volume.NewNamespace(c, ns, volume.NamespaceOptions{LockDir: t.TempDir(), Close: shut})
	must(t, err)
	v, err := volume.Create([]volume.Member{m}, volume.Options{PageSize: 4096})
	must(t, err)
	a, err := v.CreateArray("a", 16)
	must(t, err)
	f := newFixture(t, v, a)
	fs.set(func(*soft.CommandInfo) soft.Fault { return soft.Fault{Drop: true} })
	reqs := []volume.Request{{Array: a, Page: 3, Mem: f.mem}}
	start := time.Now()
	err = f.q.Run(t.Context(), reqs, 300*time.Millisecond) // in which a busy machine sends it
	var timeout *libnvm.TimeoutError
	if !errors.As(err, &timeout) || time.Since(start) > 5*time.Second {
		t.Fatalf("dropped completion: %v after %v, want *TimeoutError after 300 ms", err, time.Since(start))
	}
	if err := f.mem.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		t.Errorf("free of memory in quarantine: %v, want ErrMemoryHeld", err)
	}
	fs.fault.Store(nil)
	must(t, c.Reset())
	f.expect(3, 0)
	f.close()
}

// TestModelPacesAFile: a paced file is as slow as the model says.
func TestModelPacesAFile(t *testing.T) {
	model, err := servicetime.Load("1x980pro")
	must(t, err)
	v, err := volume.Create(openFiles(t, paths(t, 1), volume.FilesOptions{Model: model, Seed: 1}), volume.Options{PageSize: 4096})
	must(t, err)
	a, err := v.CreateArray("a", 16)
	must(t, err)
	f := newFixture(t, v, a)
	const reads = 200
	start := time.Now()
	for range reads {
		f.expect(1, 0)
	}
	// 45 us a read is the model's mean; what serves it may be slower.
	if took := time.Since(start); took < reads*40*time.Microsecond {
		t.Errorf("%d reads took %v, want at least 45 us each", reads, took)
	}
	f.close()
}

// TestUncleanVolumeOverFiles: a process that dies leaves a volume that says so.
func TestUncleanVolumeOverFiles(t *testing.T) {
	ps := paths(t, 2)
	ms := openFiles(t, ps, volume.FilesOptions{})
	v, err := volume.Create(ms, volume.Options{PageSize: 4096, Checksums: true})
	must(t, err)
	a, err := v.CreateArray("a", 64)
	must(t, err)
	f := newFixture(t, v, a)
	stamp(f.page(0), 7, 1)
	must(t, f.q.Run(t.Context(), []volume.Request{{Array: a, Page: 7, Write: true, Mem: f.mem}}, time.Minute))
	must(t, f.q.Close())
	for _, m := range ms { // the volume is forgotten, not closed
		must(t, m.Close())
	}
	v, err = volume.Open(openFiles(t, ps, volume.FilesOptions{}))
	must(t, err)
	if r := v.Recovery(); !r.Unclean || r.Pages != 1 || r.New != 1 || r.Torn != 0 || r.LastOwner == "" {
		t.Errorf("recovery %+v, want one page, new", r)
	}
	a, err = v.OpenArray("a")
	must(t, err)
	f = newFixture(t, v, a)
	f.expect(7, 1)
	f.expect(8, 0)
	f.close()
}

// TestHostErrorIsSaid: what the system says of a file that fails is in the error of the
// page, beside the drive's status; it is not when the drive fails by itself.
func TestHostErrorIsSaid(t *testing.T) {
	ps := paths(t, 1)
	plan := &faults{}
	v, err := volume.Create(openFiles(t, ps, volume.FilesOptions{Faults: func(int) soft.Faults { return plan }}), volume.Options{PageSize: 4096})
	must(t, err)
	a, err := v.CreateArray("a", 64)
	must(t, err)
	f := newFixture(t, v, a)
	read := func() error {
		r := []volume.Request{{Array: a, Page: 60, Mem: f.mem}}
		b, err := f.q.Start(r, 10*time.Second)
		must(t, err)
		_ = f.q.Wait(t.Context(), b) // of one page
		return r[0].Err
	}
	plan.set(func(*soft.CommandInfo) soft.Fault { return soft.Fault{Status: libnvm.StatusInternalError} })
	var status *libnvm.StatusError
	if err := read(); !errors.As(err, &status) || strings.Contains(err.Error(), "the host says") {
		t.Errorf("a status of the drive: %v", err)
	}
	plan.set(func(*soft.CommandInfo) soft.Fault { return soft.Fault{} })
	must(t, read())
	must(t, os.Truncate(ps[0], 4096))
	if err := read(); !errors.As(err, &status) || !strings.Contains(err.Error(), "the host says: "+ps[0]) {
		t.Errorf("a file that was cut off: %v", err)
	}
	must(t, os.Truncate(ps[0], fileSize))
	f.close()
}
