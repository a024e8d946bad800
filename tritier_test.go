package tritier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/libnvm/volume"
)

// TestMain has the tests' folders in a file system in memory where there is one with room. Some
// tests give a drive seconds, and a disk to which other programs have written gigabytes
// takes half a minute to make a file durable.
func TestMain(m *testing.M) {
	var options []goleak.Option
	const memory = "/dev/shm"
	var fs unix.Statfs_t
	roomy := unix.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= 2<<30
	if roomy && os.Getenv(crashStore) == "" { // the process that is killed would leave its folder
		if dir, err := os.MkdirTemp(memory, "tritier-test-"); err == nil && os.Setenv("TMPDIR", dir) == nil {
			options = append(options, goleak.Cleanup(func(code int) { _ = os.RemoveAll(dir); os.Exit(code) }))
		}
	}
	goleak.VerifyTestMain(m, options...)
}

const page = 4096

// open opens a Memory and closes it, checked, when the test ends.
func open(t *testing.T, c tritier.Config) *tritier.Memory {
	t.Helper()
	c.GPU = "none"
	m, err := tritier.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeMemory(t, m) })
	return m
}

func closeMemory(t *testing.T, m *tritier.Memory) {
	t.Helper()
	if err := m.Check(); err != nil && !errors.Is(err, tritier.ErrClosed) {
		t.Error(err)
	}
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// stores are stores of at least 8 MiB for tests, made in a fresh folder.
func stores(t *testing.T) map[string]string {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	return map[string]string{
		"memory":  "mem:8MiB",
		"striped": "mem:8MiB,mem:8MiB,mem:8MiB",
		"file":    "file:" + file("a") + "?size=8MiB",
		"files":   "file:" + file("b") + "?size=8MiB,file:" + file("c") + "?size=8MiB",
	}
}

var policies = []string{"bypass", "tier-order", "random", "gmt-reuse{vtd-direct=64}", "tier-order{t1=lru,t2=lru,t2copy=keep}", "gmt-reuse{t1=s3-fifo}",
	"adaptive{vtd-direct=64,hysteresis=0}"}

// TestContents: whatever the store, policy and sizes, an array holds what was
// written to it, also after Close and Open.
func TestContents(t *testing.T) {
	for name, store := range stores(t) {
		for i, policy := range policies {
			for j, size := range [][2]tritier.Size{{2, 0}, {2, 3}, {9, 20}, {400, 10}} {
				// A file's checksums are durable before each write; several drives
				// have a service thread each, which small machines switch between.
				if name != "memory" && (i+j)%4 != 0 || testing.Short() && i%2 == 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", name, policy, size), func(t *testing.T) {
					contents(t, tritier.Config{Store: store, Create: true, PageSize: page, T1: size[0] * page, T2: size[1] * page,
						Buffers: 8 * page, Policy: policy, Checksums: i%2 == 0, Force: true}, name)
				})
			}
		}
	}
}

func contents(t *testing.T, c tritier.Config, name string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	array := fmt.Sprintf("a%d", seed%1e9)
	const n = 100*page/8 + 17
	want := make([]uint64, n)
	m := open(t, c)
	if c.Checksums && strings.HasPrefix(name, "file") {
		c.Checksums = false // of the store that is there
	}
	a, err := tritier.NewArray[uint64](t.Context(), m, array, n)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 10
	if strings.HasPrefix(name, "file") {
		rounds = 3
	}
	change(t, rng, a, want, rounds)
	compare(t, a, want)
	if name == "memory" || name == "striped" {
		return
	}
	closeMemory(t, m)
	c.Create, c.PageSize, c.Force = false, 0, false
	again := open(t, c)
	if a, err = tritier.OpenArray[uint64](t.Context(), again, array); err != nil {
		t.Fatal(err)
	}
	compare(t, a, want)
	change(t, rng, a, want, rounds)
	compare(t, a, want)
	if err := again.DropArray(t.Context(), array); err != nil {
		t.Fatal(err)
	}
}

// change makes random changes by every call that makes any.
func change(t *testing.T, rng *rand.Rand, a *tritier.Array[uint64], want []uint64, rounds int) {
	t.Helper()
	for range rounds {
		var idx, val []uint64
		seen := map[uint64]bool{} // of values for one element, a GPU takes any
		for range rng.IntN(200) {
			x := min(rng.Uint64N(a.Len()), rng.Uint64N(a.Len()))
			if !seen[x] {
				seen[x] = true
				idx, val = append(idx, x), append(val, rng.Uint64())
				want[x] = val[len(val)-1]
			}
		}
		if err := a.Scatter(t.Context(), idx, val); err != nil {
			t.Fatal(err)
		}
		first := rng.Uint64N(a.Len())
		run := make([]uint64, rng.Uint64N(min(a.Len()-first, 3*page/8))+1)
		for i := range run {
			run[i] = rng.Uint64()
		}
		copy(want[first:], run)
		if err := a.Write(t.Context(), first, run); err != nil {
			t.Fatal(err)
		}
		if err := a.Prefetch(t.Context(), idx); err != nil {
			t.Fatal(err)
		}
		got := make([]uint64, len(idx))
		if err := a.Gather(t.Context(), idx, got); err != nil {
			t.Fatal(err)
		}
		for i, x := range idx {
			if got[i] != want[x] {
				t.Fatalf("element %d is %#x, want %#x", x, got[i], want[x])
			}
		}
	}
}

func compare(t *testing.T, a *tritier.Array[uint64], want []uint64) {
	t.Helper()
	got := make([]uint64, a.Len())
	if err := a.Read(t.Context(), 0, got); err != nil {
		t.Fatal(err)
	}
	if i := slices.Compare(got, want); i != 0 {
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("element %d of %q is %#x, want %#x", i, a.Name(), got[i], want[i])
			}
		}
	}
}

// TestArrays: several arrays of different types live side by side, and cannot be
// mistaken for each other.
func TestArrays(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, T2: 4 * page})
	type edge struct {
		To     uint32
		Weight float32
		Mark   [4]uint8
	}
	a, err := tritier.NewArray[float32](t.Context(), m, "weights", 5000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tritier.NewArray[edge](t.Context(), m, "edges", 3000)
	if err != nil {
		t.Fatal(err)
	}
	es := make([]edge, 3000)
	for i := range es {
		es[i] = edge{uint32(i), float32(i) / 3, [4]uint8{1, 2, 3, uint8(i)}}
	}
	if err := errors.Join(b.Write(t.Context(), 0, es), a.Write(t.Context(), 4999, []float32{7})); err != nil {
		t.Fatal(err)
	}
	got := make([]edge, 3000)
	if err := b.Read(t.Context(), 0, got); err != nil || !slices.Equal(got, es) {
		t.Errorf("edges came back different: %v", err)
	}
	infos := m.Arrays()
	if len(infos) != 2 || infos[0].Name != "edges" || infos[0].Element != "bytes12" || infos[0].Length != 3000 || infos[1].Element != "float32" {
		t.Errorf("%+v", infos)
	}
	var mismatch *tritier.MismatchError
	if _, err := tritier.OpenArray[int32](t.Context(), m, "weights"); !errors.As(err, &mismatch) {
		t.Errorf("opened as another type: %v", err)
	}
	if _, err := tritier.NewArray[float32](t.Context(), m, "weights", 5001); !errors.As(err, &mismatch) {
		t.Errorf("opened with another length: %v", err)
	}
	if _, err := tritier.OpenArray[float32](t.Context(), m, "none"); !errors.Is(err, volume.ErrNoArray) {
		t.Errorf("an array that is not there: %v", err)
	}
	if again, err := tritier.NewArray[float32](t.Context(), m, "weights", 5000); err != nil || again.Len() != 5000 {
		t.Errorf("the same array once more: %v", err)
	}
	if err := m.DropArray(t.Context(), "weights"); err != nil {
		t.Error(err)
	}
	if err := a.Write(t.Context(), 0, []float32{1}); err == nil {
		t.Error("a dropped array takes values")
	}
}

// TestRefusals of types, names, lengths and ranges.
func TestRefusals(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page})
	refused := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	_, err := tritier.NewArray[string](t.Context(), m, "s", 10)
	refused("an array of strings", err)
	_, err = tritier.NewArray[int](t.Context(), m, "s", 10)
	refused("an array of int", err)
	_, err = tritier.NewArray[struct{ P *int }](t.Context(), m, "s", 10)
	refused("an array of pointers", err)
	_, err = tritier.NewArray[struct{}](t.Context(), m, "s", 10)
	refused("an array of nothing", err)
	_, err = tritier.NewArray[[page + 1]byte](t.Context(), m, "s", 10)
	refused("an element larger than a page", err)
	_, err = tritier.NewArray[byte](t.Context(), m, "s", 0)
	refused("an empty array", err)
	_, err = tritier.NewArray[byte](t.Context(), m, "s", 1<<62)
	refused("an array larger than the store", err)
	for _, name := range []string{"", "a b", "a@b", "ä", strings.Repeat("x", 41), "a/b", "a\x00"} {
		_, err = tritier.NewArray[byte](t.Context(), m, name, 10)
		refused(fmt.Sprintf("the name %q", name), err)
	}
	a, err := tritier.NewArray[uint32](t.Context(), m, "ok", 5000)
	if err != nil {
		t.Fatal(err)
	}
	var re *tritier.RangeError
	buf := make([]uint32, 2)
	for _, err := range []error{a.Gather(t.Context(), []uint64{0, 5000}, buf), a.Scatter(t.Context(), []uint64{1 << 63, 1}, buf),
		a.Read(t.Context(), 4999, buf), a.Write(t.Context(), 1<<64-1, buf), a.PrefetchRange(t.Context(), 1, 1<<64-1), a.Prefetch(t.Context(), []uint64{5000})} {
		if !errors.As(err, &re) || re.Len != 5000 {
			t.Errorf("outside of the array: %v", err)
		}
	}
	var se *tritier.SizeError
	if err := a.Gather(t.Context(), []uint64{1}, buf); !errors.As(err, &se) {
		t.Errorf("two values for one index: %v", err)
	}
	if err := errors.Join(a.Gather(t.Context(), nil, nil), a.Read(t.Context(), 5000, nil), a.Write(t.Context(), 0, nil), m.DropArray(t.Context(), "ok")); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}

// TestLastWins: in ordinary memory, the last of several values for an element counts.
func TestLastWins(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 2 * page})
	a, err := tritier.NewArray[uint16](t.Context(), m, "a", 100000)
	if err != nil {
		t.Fatal(err)
	}
	var idx []uint64
	var val []uint16
	for i := range 1000 {
		idx, val = append(idx, uint64(i%7)*10000), append(val, uint16(i))
	}
	got := make([]uint16, 7)
	if err := errors.Join(a.Scatter(t.Context(), idx, val), a.Gather(t.Context(), idx[:7], got)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []uint16{994, 995, 996, 997, 998, 999, 993}) {
		t.Errorf("%v", got)
	}
}

// TestPinned: pinned values are the array's, and pins that do not fit say what would.
func TestPinned(t *testing.T) {
	m := open(t, tritier.Config{Store: "mem:8MiB", PageSize: page, T1: 4 * page, T2: 4 * page})
	a, err := tritier.NewArray[uint32](t.Context(), m, "a", 100*page/4)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]uint32, a.Len())
	for i := range all {
		all[i] = rand.Uint32()
	}
	if err := a.Write(t.Context(), 0, all); err != nil {
		t.Fatal(err)
	}
	const first, n = 1500, 2000 // on pages 1 to 3
	p, err := a.Pin(t.Context(), first, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Read(t.Context(), 0, make([]uint32, a.Len())); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(p.Values()...); !slices.Equal(got, all[first:first+n]) || len(p.Addresses()) != 3 {
		t.Errorf("pinned values differ, %d addresses", len(p.Addresses()))
	}
	var pe *tritier.PinError
	if _, err := a.Pin(t.Context(), 50*page/4, 1); !errors.As(err, &pe) || pe.Needs != 5 {
		t.Errorf("a fourth page of four frames: %v", err)
	}
	if err := errors.Join(p.Unpin(), p.Unpin()); err != nil {
		t.Error(err)
	}
	if _, err := a.Pin(t.Context(), 50*page/4, 1); err != nil {
		t.Error(err)
	}
}

// TestStoreErrors: no store, another page size, a store in use, mixed drives.
func TestStoreErrors(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "s") + "?size=8MiB"
	c := tritier.Config{Store: file, T1: 1 << 20, T2: 1 << 20, GPU: "none"}
	if _, err := tritier.Open(t.Context(), c); err == nil {
		t.Error("a file that is not there is a store")
	}
	c.Create = true
	m := open(t, c)
	var locked *volume.LockedError
	if _, err := tritier.Open(t.Context(), c); !errors.As(err, &locked) {
		t.Errorf("a store in use: %v", err)
	}
	closeMemory(t, m)
	c.PageSize = page
	var bad *tritier.ConfigError
	if _, err := tritier.Open(t.Context(), c); !errors.As(err, &bad) {
		t.Errorf("another page size: %v", err)
	}
	c.PageSize, c.T1 = 0, 4<<10
	if _, err := tritier.Open(t.Context(), c); !errors.As(err, &bad) {
		t.Errorf("a T1 smaller than the store's pages: %v", err)
	}
	c.T1, c.Store = 1<<20, file+",mem:8MiB"
	if _, err := tritier.Open(t.Context(), c); err == nil {
		t.Error("memory and a file are one store")
	}
	c.Store = "file:" + filepath.Join(t.TempDir(), "empty") + "?size=8MiB"
	open(t, c)
}

// TestConfigReportsAll violations together.
func TestConfigReportsAll(t *testing.T) {
	err := tritier.Config{PageSize: 3000, T2: 5, Policy: "belady", Threads: -1, Timeout: 1, Retries: 1000, Model: "none-such", GPU: "gpu?"}.Check()
	var bad *tritier.ConfigError
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	for _, field := range []string{"store:", "page_size:", "t1:", "t2:", "policy:", "threads:", "timeout:", "retries:", "model:", "gpu:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not in: %v", field, err)
		}
	}
}
