package raw

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/pci"
	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/internal/vfio/vfiofake"
	"github.com/tritier/tritier/libnvm"
)

var (
	_ libnvm.Transport = (*Transport)(nil)
	_ libnvm.CMB       = (*Transport)(nil)
)

// invented is memory with made-up physical addresses, in descending order, so that neighbours in the program are none on the bus.
type invented struct {
	left  int
	next  uint64
	given int // pages that were not given back
}

func (s *invented) take(n int) ([]byte, []uint64, error) {
	if n > s.left {
		return nil, nil, &HugePagesError{n, int64(s.left), unix.ENOMEM}
	}
	b, err := unix.Mmap(-1, 0, n*hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	var addrs []uint64
	for range n {
		s.next -= 3 * hugePage
		addrs = append(addrs, s.next)
	}
	s.left -= n
	s.given += n
	return b, addrs, nil
}

func (s *invented) give(b []byte) error {
	s.left += len(b) / hugePage
	s.given -= len(b) / hugePage
	return unix.Munmap(b)
}

func newInvented(pages int) *invented { return &invented{left: pages, next: 1 << 40} }

const addr = "0000:01:00.0"

// tree is a sysfs with one drive that no driver has.
func tree(t *testing.T) (pci.Tree, string) {
	t.Helper()
	dir := t.TempDir()
	d := filepath.Join(dir, "sys/bus/pci/devices", addr)
	err := errors.Join(os.MkdirAll(d, 0o755), os.MkdirAll(dir+"/proc/self", 0o755), os.WriteFile(dir+"/proc/self/mountinfo", nil, 0o600),
		os.WriteFile(d+"/class", []byte("0x010802\n"), 0o600), os.WriteFile(d+"/enable", nil, 0o600),
		os.WriteFile(d+"/config", make([]byte, 256), 0o600), os.WriteFile(d+"/resource0", make([]byte, 16<<10), 0o600),
		os.WriteFile(d+"/resource2", make([]byte, 8<<10), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return pci.Tree{Sys: dir + "/sys", Proc: dir + "/proc", Dev: dir + "/dev"}, d
}

func command(t *testing.T, dir string) byte {
	t.Helper()
	b, err := os.ReadFile(dir + "/config")
	if err != nil {
		t.Fatal(err)
	}
	return b[commandOffset]
}

func TestRefusedUnlessUnsafe(t *testing.T) {
	tr, dir := tree(t)
	if _, err := open(tr, newInvented(1), addr, Options{Bind: true, Force: true}); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), Warning) {
		t.Errorf("sysfs: %v", err)
	}
	if _, err := openNoIOMMU(vfiofake.New(), tr, newInvented(1), addr, Options{Bind: true, Force: true}); !errors.Is(err, ErrUnsafe) {
		t.Errorf("no-IOMMU: %v", err)
	}
	if command(t, dir) != 0 {
		t.Error("the drive was touched")
	}
}

func TestOpenAndClose(t *testing.T) {
	tr, dir := tree(t)
	src := newInvented(4)
	x, err := open(tr, src, addr, Options{AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := command(t, dir); c != commandMemory|commandBusMaster {
		t.Errorf("command register %#x", c)
	}
	if x.Name() != "raw" || x.Registers().Len() != 16<<10 {
		t.Errorf("%s, registers of %d bytes", x.Name(), x.Registers().Len())
	}
	x.Registers().Write32(0x14, 0x12345678)
	if b, err := os.ReadFile(dir + "/resource0"); err != nil || !bytes.Equal(b[0x14:0x18], []byte{0x78, 0x56, 0x34, 0x12}) {
		t.Errorf("registers are not the drive's (%v)", err)
	}
	a, err := x.BAR(2)
	if err != nil || len(a) != 8<<10 {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 1, 6} {
		if _, err := x.BAR(n); err == nil {
			t.Errorf("BAR%d was mapped", n)
		}
	}
	m, err := x.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	var e *libnvm.MapError
	if _, err := x.Map(m.Bytes()); !errors.As(err, &e) {
		t.Errorf("Map: %v", err)
	}
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Error(err)
	}
	if v := x.Registers().Read32(0x14); v != 1<<32-1 {
		t.Errorf("after Close a register reads %#x, want all ones", v)
	}
	if c := command(t, dir); c != commandMemory {
		t.Errorf("after Close the command register is %#x: the drive may still reach memory", c)
	}
	if src.given != 0 {
		t.Errorf("%d huge pages were not given back", src.given)
	}
}

// TestMemoryInUseIsNotGivenBack: what the drive, or the program, may still use must not become somebody else's.
func TestMemoryInUseIsNotGivenBack(t *testing.T) {
	tr, _ := tree(t)
	src := newInvented(4)
	x, err := open(tr, src, addr, Options{AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := x.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err == nil || src.given != 1 {
		t.Errorf("closed with memory in use: %v, %d pages kept", err, src.given)
	}
	m.Bytes()[0] = 1
	if _, err := x.Alloc(4096); err == nil {
		t.Error("memory was allocated after Close")
	}
	if err := m.Free(); err != nil || src.given != 0 {
		t.Errorf("the last piece: %v, %d pages kept", err, src.given)
	}
}

// TestMemoryOfADriveThatIsGone: a drive vanishes while it is enabled, with its admin queue set up. What it may still write to goes back when
// the transport has taken its access away, not before.
func TestMemoryOfADriveThatIsGone(t *testing.T) {
	tr, dir := tree(t)
	src := newInvented(4)
	x, err := open(tr, src, addr, Options{AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	vanishOnEnable(t, x.Registers())
	_, err = libnvm.Open(x, libnvm.Config{ReadyTimeout: 10 * time.Second})
	var gone *libnvm.DeviceGoneError
	if !errors.As(err, &gone) {
		t.Fatalf("open: %v, want a DeviceGoneError", err)
	}
	if len(x.mem.live) == 0 || src.given == 0 {
		t.Error("the rings were given back while the drive may use them")
	}
	large, err := x.Alloc(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := large.Free(); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if c := command(t, dir); c&commandBusMaster != 0 || len(x.mem.live) != 0 || src.given != 0 {
		t.Errorf("after Close: command register %#x, %d pieces and %d pages kept", c, len(x.mem.live), src.given)
	}
}

// vanishOnEnable plays a controller that is ready to be enabled and vanishes when it is.
func vanishOnEnable(t *testing.T, r libnvm.Registers) {
	const cc, csts = 0x14, 0x1c
	r.Write32(0, 0xff|20<<24) // CAP: 256 entries, 10 s
	r.Write32(4, 1<<5)        // the NVM command set
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
			if r.Read32(cc)&1 != 0 {
				r.Write32(csts, 1<<32-1)
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

func TestObstacles(t *testing.T) {
	for _, x := range []struct {
		name string
		do   func(dir string) error
		opt  Options
		want func(error) bool
	}{
		{"an IOMMU translates", func(d string) error {
			return errors.Join(os.MkdirAll(d+"/../g/3", 0o755), os.Symlink("../g/3", d+"/iommu_group"), os.WriteFile(d+"/../g/3/type", []byte("DMA-FQ\n"), 0o600))
		}, Options{AllowUnsafe: true}, func(err error) bool {
			var e *IOMMUActiveError
			return errors.As(err, &e) && e.Domain == "DMA-FQ" && strings.Contains(err.Error(), "iommu=pt")
		}},
		{"an IOMMU passes through", func(d string) error {
			return errors.Join(os.MkdirAll(d+"/../g/3", 0o755), os.Symlink("../g/3", d+"/iommu_group"), os.WriteFile(d+"/../g/3/type", []byte("identity\n"), 0o600))
		}, Options{AllowUnsafe: true}, func(err error) bool { return err == nil }},
		{"a driver has it", func(d string) error { return os.Symlink("../drivers/nvme", d+"/driver") }, Options{AllowUnsafe: true}, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "driver nvme")
		}},
		{"it holds data", func(d string) error {
			dev := filepath.Join(d, "../../../../../dev")
			return errors.Join(os.Symlink("../drivers/nvme", d+"/driver"), os.MkdirAll(d+"/nvme/nvme0/nvme0n1", 0o755), os.MkdirAll(dev, 0o755),
				os.WriteFile(dev+"/nvme0n1", append(make([]byte, 512), "EFI PART"...), 0o600))
		}, Options{AllowUnsafe: true, Bind: true}, func(err error) bool { var e *pci.InUseError; return errors.As(err, &e) }},
		{"no registers", func(d string) error { return os.Remove(d + "/resource0") }, Options{AllowUnsafe: true}, func(err error) bool { return errors.Is(err, os.ErrNotExist) }},
		{"no configuration space", func(d string) error { return os.Remove(d + "/config") }, Options{AllowUnsafe: true}, func(err error) bool { return errors.Is(err, os.ErrNotExist) }},
		{"no such drive", func(d string) error { return os.WriteFile(d+"/class", nil, 0o600) }, Options{AllowUnsafe: true}, func(err error) bool { var e *pci.NotFoundError; return errors.As(err, &e) }},
	} {
		tr, dir := tree(t)
		tr.Busy = func(string) (bool, error) { return false, nil }
		if err := x.do(dir); err != nil {
			t.Fatal(x.name, err)
		}
		tp, err := open(tr, newInvented(1), addr, x.opt)
		if !x.want(err) {
			t.Errorf("%s: %v", x.name, err)
		}
		if tp != nil {
			tp.Close()
		}
	}
}

func TestNoIOMMU(t *testing.T) {
	tr, _ := tree(t)
	k := vfiofake.New()
	if _, err := openNoIOMMU(k, tr, newInvented(1), addr, Options{AllowUnsafe: true}); err == nil {
		t.Error("opened a group that has an IOMMU as if it had none")
	}
	k.Nodes["/dev/vfio/noiommu-"+vfiofake.Group] = vfio.Access{}
	x, err := openNoIOMMU(k, tr, newInvented(1), addr, Options{AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := x.Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := m.IOVA(4096); err != nil || a != 1<<40-3*hugePage+4096 {
		t.Errorf("address %#x, want the physical one (%v)", a, err)
	}
	if err := errors.Join(m.Free(), x.Close()); err != nil || len(k.Leaks()) > 0 {
		t.Error(err, k.Leaks())
	}
}

func TestFrame(t *testing.T) {
	const present = 1 << 63
	for entry, want := range map[uint64]uint64{present | 0x12_3400: 0x12_3400 << 12, present | 1<<61 | 512: 512 << 12} {
		if a, err := frame(entry); err != nil || a != want {
			t.Errorf("%#x: %#x, %v, want %#x", entry, a, err, want)
		}
	}
	// Not present; number hidden from those without the right; not the first frame of a huge page.
	for _, entry := range []uint64{0x200, present, present | 0x201, 0} {
		var e *FrameError
		if a, err := frame(entry); !errors.As(err, &e) {
			t.Errorf("%#x: %#x, %v, want a FrameError", entry, a, err)
		}
	}
}

// TestPool allocates and frees at random: pieces never overlap, are zero, contiguous where they must be, and their addresses lie in the
// huge page that their bytes lie in.
func TestPool(t *testing.T) {
	zeroes, ones := make([]byte, 3*hugePage), bytes.Repeat([]byte{0xff}, 3*hugePage)
	rapid.Check(t, func(t *rapid.T) {
		src := newInvented(6)
		p := &pool{src: src}
		owner := map[uint64]int{} // physical page to piece
		live := map[int]*libnvm.Memory{}
		pages := func(m *libnvm.Memory, f func(uint64)) {
			for off := 0; off < m.Len(); off += 4096 {
				a, err := m.IOVA(off)
				if err != nil {
					t.Fatal(err)
				}
				f(a)
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "free") == 0 {
				for k, m := range live {
					pages(m, func(a uint64) { delete(owner, a) })
					if err := m.Free(); err != nil {
						t.Fatal(err)
					}
					delete(live, k)
					break
				}
				continue
			}
			size := rapid.SampledFrom([]int{1, 4096, 4097, 64 << 10, 300 << 10, hugePage - 1, hugePage, hugePage + 1, 2*hugePage + 4096}).Draw(t, "size")
			m, err := p.alloc(size)
			var full *HugePagesError
			if errors.As(err, &full) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.Len() != (size+4095)&^4095 || size <= hugePage && !m.Contiguous(0, m.Len()) {
				t.Fatalf("%d bytes for %d, contiguous %v", m.Len(), size, m.Contiguous(0, m.Len()))
			}
			if !bytes.Equal(m.Bytes(), zeroes[:m.Len()]) {
				t.Fatalf("%d bytes are not zero", size)
			}
			copy(m.Bytes(), ones)
			pages(m, func(a uint64) {
				if o, taken := owner[a]; taken {
					t.Fatalf("page %#x belongs to piece %d too", a, o)
				}
				owner[a] = i
			})
			live[i] = m
		}
		if len(live) > 0 {
			if p.close() == nil {
				t.Fatal("closed with memory in use")
			}
		}
		for _, m := range live {
			if err := m.Free(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.close(); err != nil || src.given != 0 {
			t.Fatalf("in the end %v, %d huge pages not given back", err, src.given)
		}
	})
}

func TestKernelPagesSayWhatIsMissing(t *testing.T) {
	b, addrs, err := kernelPages{}.take(1)
	if err != nil {
		var h *HugePagesError
		var f *FrameError
		if !errors.As(err, &h) && !errors.As(err, &f) {
			t.Errorf("%v: neither too few huge pages nor hidden addresses", err)
		}
		if errors.As(err, &h) && (h.Free > 0 || !strings.Contains(err.Error(), "vm.nr_hugepages")) {
			t.Errorf("%v", err)
		}
		return
	}
	if len(addrs) != 1 || addrs[0]%hugePage != 0 {
		t.Errorf("addresses %#x", addrs)
	}
	if err := (kernelPages{}).give(b); err != nil {
		t.Error(err)
	}
}
