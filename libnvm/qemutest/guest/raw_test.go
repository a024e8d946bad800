package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/internal/qemu/guest"
	kernel "github.com/tritier/tritier/internal/vfio"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/raw"
	"github.com/tritier/tritier/libnvm/vfio"
)

// TestRawErrors meets what stands in the way without an IOMMU, on a real kernel.
func TestRawErrors(t *testing.T) {
	spare := addressOf(t, spareDrive)
	if _, err := raw.Open(spare, raw.Options{Bind: true}); !errors.Is(err, raw.ErrUnsafe) {
		t.Errorf("without AllowUnsafe: %v, want ErrUnsafe", err)
	}
	_, err := vfio.Open(spare, vfio.Options{})
	wantError[*kernel.NoIOMMUError](t, "VFIO without an IOMMU", err)
	tr := transport(t, mainDrive)
	_, err = tr.Map(make([]byte, 4096))
	wantError[*libnvm.MapError](t, "ordinary memory", err)
	_, err = tr.Alloc(1 << 30)
	if e := wantError[*raw.HugePagesError](t, "more than there is", err); e != nil && e.Free < 1 {
		t.Errorf("%d huge pages are free, want some", e.Free)
	}
}

// TestRawStalePhase gives a queue pair memory in which every phase bit is set: without an IOMMU freed memory comes back as it was, and its
// old completion entries would read as new ones.
func TestRawStalePhase(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 4})
	for round := range 8 {
		var dirty []*libnvm.Memory
		for range 32 {
			m, err := b.tr.Alloc(16 << 10)
			if err != nil {
				t.Fatal(err)
			}
			for i := range m.Bytes() {
				m.Bytes()[i] = 0xff
			}
			dirty = append(dirty, m)
		}
		for _, m := range dirty {
			if err := m.Free(); err != nil {
				t.Fatal(err)
			}
		}
		q, err := b.c.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // round the ring more than twice
			if err := q.Do(b.request(libnvm.OpRead, 0, 1, 0)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if s := q.Stats(); s.UnknownCID+s.Duplicate+s.Late+s.BadSQHD != 0 || s.CQEs != 20 {
			t.Fatalf("round %d: stale entries were taken for completions: %+v", round, s)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRawLargeMemory moves data across the borders of huge pages, which are not next to each other in physical memory.
func TestRawLargeMemory(t *testing.T) {
	b := newBench(t, mainDrive, dataNS, libnvm.QueueConfig{Depth: 16})
	m, err := b.tr.Alloc(6 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	const at, n = 2<<20 - 4096*3, 256 << 10
	for i := range n {
		m.Bytes()[at+i] = byte(i>>8 ^ i)
	}
	blocks := uint64(n / b.ns.BlockSize)
	w := &libnvm.Request{Op: libnvm.OpWrite, NS: b.ns, LBA: 4096, Blocks: blocks, Mem: m, Offset: at}
	if err := b.q.Do(w); err != nil {
		t.Fatal(err)
	}
	clear(m.Bytes())
	r := &libnvm.Request{Op: libnvm.OpRead, NS: b.ns, LBA: 4096, Blocks: blocks, Mem: m, Offset: 4<<20 - 4096*5}
	if err := b.q.Do(r); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := m.Bytes()[4<<20-4096*5+i]; got != byte(i>>8^i) {
			t.Fatalf("byte %d is %#x, want %#x", i, got, byte(i>>8^i))
		}
	}
}

// command sets and clears bits of a function's PCI command register.
func command(t *testing.T, address string, set, unset byte) {
	t.Helper()
	f, err := os.OpenFile("/sys/bus/pci/devices/"+address+"/config", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], 4); err != nil {
		t.Fatal(err)
	}
	b[0] = b[0]&^unset | set
	if _, err := f.WriteAt(b[:], 4); err != nil {
		t.Fatal(err)
	}
}

const (
	decodeMemory = 1 << 1 // bits of the command register
	busMaster    = 1 << 2
)

// onesOver takes a drive off its registers' address and puts memory full of ones there: QEMU gives zeroes where nothing answers, a real
// machine gives ones. It returns what undoes it.
func onesOver(t *testing.T, drive string) (undo func()) {
	t.Helper()
	const sys = "/sys/bus/pci/devices/"
	devices, err := filepath.Glob(sys + "*/device")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(devices, func(p string) bool { b, _ := os.ReadFile(p); return strings.TrimSpace(string(b)) == "0x1110" })
	if i < 0 {
		t.Fatal("no ivshmem function")
	}
	memory := filepath.Base(filepath.Dir(devices[i]))
	if err := os.WriteFile(sys+memory+"/enable", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(sys+memory+"/resource2", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xff
	}
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	var first, last uint64
	r, err := os.ReadFile(sys + drive + "/resource")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(r), "0x%x 0x%x", &first, &last); err != nil {
		t.Fatal(err)
	}
	command(t, drive, 0, decodeMemory|busMaster)
	config, err := os.OpenFile(sys+memory+"/config", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	// BAR2 has 64 bits; the low four of them are flags, which cannot be written.
	if _, err := config.WriteAt(binary.LittleEndian.AppendUint64(nil, first), 0x18); err != nil {
		t.Fatal(err)
	}
	command(t, memory, decodeMemory, 0)
	return func() {
		command(t, memory, 0, decodeMemory)
		command(t, drive, decodeMemory|busMaster, 0)
	}
}

// TestRawDeviceGone makes the registers read all ones while a command is outstanding.
func TestRawDeviceGone(t *testing.T) {
	b := newBench(t, mainDrive, slowNS, libnvm.QueueConfig{Depth: 4})
	tk, err := b.q.Submit(b.request(libnvm.OpRead, 0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	undo := onesOver(t, addressOf(t, mainDrive))
	if v := b.tr.Registers().Read32(0x1c); v != 1<<32-1 {
		t.Errorf("CSTS reads %#x, want all ones", v)
	}
	_, err = b.q.Wait(tk, 5*time.Second)
	health := b.c.Health()
	undo()
	wantError[*libnvm.DeviceGoneError](t, "command", err)
	wantError[*libnvm.DeviceGoneError](t, "health", health)
	if err := b.c.Reset(); err != nil {
		t.Fatal("once it is back: ", err)
	}
	b.queue(t, libnvm.QueueConfig{Depth: 4})
	b.do(t, libnvm.OpRead, 0, 1, 0)
}

// TestRawUnplug unplugs a drive. No driver of the kernel has it, so nobody is asked: it is just gone. QEMU gives zeroes where its registers
// were, which no controller may have. (QEMU 7.2 itself crashes when the controller is enabled at that moment, so it is shut down before.)
func TestRawUnplug(t *testing.T) {
	address := addressOf(t, hotDrive)
	tr := transport(t, hotDrive)
	c, err := libnvm.Open(tr, libnvm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	guest.QMP(t, `{"execute":"device_del","arguments":{"id":"nv1"}}`)
	guest.WaitFor(t, "/sys/bus/pci/devices/"+address, true, 20*time.Second)
	for end := time.Now().Add(20 * time.Second); strings.Contains(guest.QMP(t, `{"execute":"qom-list","arguments":{"path":"/machine/peripheral"}}`), `"nv1"`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("QEMU has not let the drive go")
		}
	}
	_, err = libnvm.Open(tr, libnvm.Config{})
	wantError[*libnvm.ProtocolError](t, "unplugged", err)
}
