package tritier_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/bamio"
)

// sealable is a file of memory, by a path, and a function that has the host refuse every
// further write of it.
func sealable(t *testing.T) (path string, seal func()) {
	t.Helper()
	fd, err := unix.MemfdCreate("store", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Skip(err)
	}
	f := os.NewFile(uintptr(fd), "store")
	t.Cleanup(func() { f.Close() })
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostErrorIsSaid: what the host says of a file that takes no more writes is in the
// errors of pages, whoever orchestrates: of those that are flushed, and of an access that found no
// room since another page could not be written. Over several drives it is that of the file that failed.
func TestHostErrorIsSaid(t *testing.T) {
	t.Run("host", func(t *testing.T) { hostErrorIsSaid(t, tritier.EngineHost) })
	onDevice(t, func(t *testing.T) { hostErrorIsSaid(t, tritier.EngineGPU) })
}

func hostErrorIsSaid(t *testing.T, engine string) {
	good, _ := sealable(t)
	path, seal := sealable(t)
	c := tritier.Config{Store: "file:" + good + "?size=8MiB,file:" + path + "?size=8MiB", Create: true, PageSize: page, T1: 4 * page, Buffers: 4 * page,
		GPU: "none", Engine: engine, Policy: "bypass{t1=clock}", Retries: -1}
	if engine == tritier.EngineGPU {
		c.GPU = "0"
	}
	m, a := faultyArray(t, c)
	want := make([]uint64, a.Len())
	if err := errors.Join(a.Write(t.Context(), 0, want), m.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	seal()
	for i := range 4 { // dirty pages, of both drives by turns
		if err := a.Scatter(t.Context(), []uint64{uint64(i * page / 8)}, []uint64{7}); err != nil {
			t.Fatal(err)
		}
	}
	said := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "; the host says: "+path+": operation not permitted") || strings.Contains(err.Error(), good+":") {
			t.Errorf("%s: %v", what, err)
		}
	}
	said("flush", m.Flush(t.Context()))
	err := a.Read(t.Context(), 0, make([]uint64, a.Len()))
	said("victims", err)
	var batch *tritier.BatchError
	if !errors.As(err, &batch) || !strings.Contains(err.Error(), "no room in the tiers: ") {
		t.Errorf("%v", err)
	}
	var lost *tritier.FlushError
	err = m.Close(t.Context())
	said("close", err)
	var status *bamio.StatusError
	if !errors.As(err, &lost) || lost.Failed == 0 || (engine == tritier.EngineGPU) != errors.As(err, &status) {
		t.Errorf("%v", err)
	}
}

// TestHostErrorOfReads: a file that was cut off likewise, while what a drive refuses by itself
// has no word of the host.
func TestHostErrorOfReads(t *testing.T) {
	onDevice(t, func(t *testing.T) {
		path, _ := sealable(t)
		c := tritier.Config{Store: "file:" + path + "?size=8MiB", Create: true, PageSize: page, T1: 4 * page, Buffers: 4 * page, GPU: "0",
			Engine: tritier.EngineGPU, Policy: "bypass{t1=clock}", Retries: -1}
		m, a := faultyArray(t, c)
		all := make([]uint64, a.Len())
		if err := errors.Join(a.Write(t.Context(), 0, all), m.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 4096); err != nil {
			t.Fatal(err)
		}
		if err := a.Read(t.Context(), 0, all); err == nil || !strings.Contains(err.Error(), "the drive answers Unrecovered Read Error; the host says: "+path+": ") {
			t.Errorf("a file that was cut off: %v", err)
		}
		if err := os.Truncate(path, 8<<20); err != nil {
			t.Fatal(err)
		}
		closeMemory(t, m)
	})
}
