package vfio_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/internal/vfio/vfiofake"
)

// interfaces are the two ways to a device; every test of what they have in common runs on both.
var interfaces = map[string]func(vfio.System) (*vfio.Device, error){
	"group": func(s vfio.System) (*vfio.Device, error) {
		return vfio.OpenGroup(s, vfiofake.Address, vfio.GroupOptions{})
	},
	"iommufd": func(s vfio.System) (*vfio.Device, error) { return vfio.OpenCdev(s, vfiofake.Address) },
}

func onBoth(t *testing.T, f func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error))) {
	for name, open := range interfaces {
		t.Run(name, func(t *testing.T) {
			k := vfiofake.New()
			f(t, k, open)
			if l := k.Leaks(); len(l) > 0 {
				t.Errorf("left behind: %s", strings.Join(l, ", "))
			}
		})
	}
}

// pages is memory that does not move, n pages of 4 KiB.
func pages(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

func TestDeviceReachesWhatIsMapped(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		if !k.BusMaster() {
			t.Error("the device may not reach memory")
		}
		b := pages(t, 3)
		iova, err := d.Map(b)
		if err != nil {
			t.Fatal(err)
		}
		b[5000] = 0x5a
		if m, err := k.Memory(iova+5000, 1); err != nil || m[0] != 0x5a {
			t.Errorf("the device sees %v, %v", m, err)
		}
		if err := d.Unmap(iova, len(b)); err != nil {
			t.Error(err)
		}
		if _, err := k.Memory(iova, 1); err == nil {
			t.Error("the device still reaches memory that was unmapped")
		}
		if err := d.Unmap(iova, len(b)); err == nil {
			t.Error("unmapped twice")
		}
		bar, err := d.MapRegion(0)
		if err != nil {
			t.Fatal(err)
		}
		bar[20] = 7
		if k.BAR(0)[20] != 7 {
			t.Error("the mapping is not the device's BAR0")
		}
		if _, err := d.MapRegion(1); err == nil {
			t.Error("a BAR that is not there was mapped")
		}
		if err := d.Reset(); err != nil || k.Resets() != 1 {
			t.Errorf("reset: %v, %d resets", err, k.Resets())
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		if k.BusMaster() {
			t.Error("the device may still reach memory after Close")
		}
		if _, err := d.Map(b); err == nil {
			t.Error("mapped after Close")
		}
	})
}

// TestDeviceOpensAgain: register mappings keep the device open in the kernel, so Close must undo them.
func TestDeviceOpensAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		for range 3 {
			d, err := open(k)
			if err != nil {
				t.Fatal(err)
			}
			for _, bar := range []int{0, 2} {
				if _, err := d.MapRegion(bar); err != nil {
					t.Fatal(err)
				}
			}
			var busy *vfio.BusyError
			if _, err := open(k); !errors.As(err, &busy) {
				t.Errorf("opened twice at once: %v", err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRevokedAddressIsNotUsedAgain: a device that still works on a command must not meet somebody else's memory at the address.
func TestRevokedAddressIsNotUsedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		a, b := pages(t, 2), pages(t, 2)
		iova, err := d.Map(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Revoke(iova, len(a)); err != nil {
			t.Fatal(err)
		}
		other, err := d.Map(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Memory(iova, 1); err == nil || other == iova {
			t.Errorf("the device finds memory at %#x, which was revoked (next at %#x)", iova, other)
		}
		if err := d.Unmap(iova, len(a)); err != nil {
			t.Fatal(err)
		}
		if again, err := d.Map(a); err != nil || again != iova {
			t.Errorf("after Unmap the address is %#x, want %#x again (%v)", again, iova, err)
		}
	})
}

func TestRemovalRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, want := range []bool{false, true, false} {
			if want {
				k.AskBack()
			}
			if got, err := d.RemovalRequested(); got != want || err != nil {
				t.Errorf("asked for: %v, %v, want %v", got, err, want)
			}
		}
	})
}

// TestRandomMappings maps and unmaps pieces of random sizes and looks at each through the device's eyes.
func TestRandomMappings(t *testing.T) {
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		k.Ranges = [][2]uint64{{0, 64 << 10}, {1 << 20, 1<<20 + 256<<10 - 1}}
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		arena := pages(t, 4096)
		rapid.Check(t, func(rt *rapid.T) {
			type piece struct {
				b    []byte
				iova uint64
			}
			var live []piece
			used, stamp := 0, byte(0)
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				if len(live) > 0 && rapid.Bool().Draw(rt, "unmap") {
					i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
					if err := d.Unmap(live[i].iova, len(live[i].b)); err != nil {
						rt.Fatal(err)
					}
					live = slices.Delete(live, i, i+1)
					continue
				}
				n := rapid.IntRange(1, 20).Draw(rt, "pages") * 4096
				b := arena[used%(8<<20) : used%(8<<20)+n]
				used += n
				iova, err := d.Map(b)
				if err != nil {
					continue // full; the kernel's own rules are checked by the fake
				}
				stamp++
				b[0], b[n-1] = stamp, stamp
				live = append(live, piece{b, iova})
			}
			for _, p := range live {
				if m, err := k.Memory(p.iova, len(p.b)); err != nil || &m[0] != &p.b[0] {
					rt.Fatalf("at %#x the device finds other memory (%v)", p.iova, err)
				}
				if err := d.Unmap(p.iova, len(p.b)); err != nil {
					rt.Fatal(err)
				}
			}
		})
		// Nothing got lost: the whole of the larger range can be mapped at once.
		iova, err := d.Map(arena[:256<<10])
		if err != nil || iova != 1<<20 {
			t.Fatalf("at the end: %#x, %v", iova, err)
		}
		if err := d.Unmap(iova, 256<<10); err != nil {
			t.Error(err)
		}
	})
}

// TestNoIOMMUMapsNothing: physical addresses are the transport's business.
func TestNoIOMMUMapsNothing(t *testing.T) {
	k := vfiofake.New()
	k.Nodes["/dev/vfio/noiommu-"+vfiofake.Group] = vfio.Access{}
	d, err := vfio.OpenGroup(k, vfiofake.Address, vfio.GroupOptions{NoIOMMU: true})
	if err != nil {
		t.Fatal(err)
	}
	var m *vfio.MapError
	if _, err := d.Map(pages(t, 1)); !errors.As(err, &m) {
		t.Errorf("%v, want a MapError", err)
	}
	if err := d.Close(); err != nil || len(k.Leaks()) > 0 {
		t.Error(err, k.Leaks())
	}
}

// TestOrder pins the order of requests, which the kernel depends on.
func TestOrder(t *testing.T) {
	want := map[string]string{
		"group":   "version status set container set iommu iommu info iommu info device info region irqs",
		"iommufd": "bind ioas attach ranges ranges info region irqs",
	}
	onBoth(t, func(t *testing.T, k *vfiofake.Kernel, open func(vfio.System) (*vfio.Device, error)) {
		d, err := open(k)
		if err != nil {
			t.Fatal(err)
		}
		name := t.Name()[strings.Index(t.Name(), "/")+1:]
		if got := strings.Join(k.Calls, " "); got != want[name] {
			t.Errorf("requests %q, want %q", got, want[name])
		}
		d.Close()
	})
}

func TestKernelSystemSeesFiles(t *testing.T) {
	s := vfio.Kernel()
	if _, err := s.Access("/no/such/node"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
	fd, err := s.Eventfd()
	if err != nil {
		t.Fatal(err)
	}
	var b [8]byte
	if _, err := s.Read(fd, b[:]); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("an empty eventfd: %v, want EAGAIN", err)
	}
	if _, err := s.Ioctl(fd, vfio.ReqDeviceInfo, b[:]); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a VFIO request to an eventfd: %v, want ENOTTY", err)
	}
	if err := s.Close(fd); err != nil {
		t.Error(err)
	}
	if _, err := vfio.OpenGroup(s, "../../../etc", vfio.GroupOptions{}); err == nil {
		t.Error("an address with slashes was opened")
	}
}
