//go:build cgo && linux

package gpuinfo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// childVariable makes a run of this test binary the child of TestNVML: a library can be loaded once in a process only, so that each case
// has one of its own.
const childVariable = "GPUINFO_TEST_CHILD"

// TestNVML runs the real binding against a library of the test's own.
func TestNVML(t *testing.T) {
	dir := t.TempDir()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	build := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct{ name, library, init, log string }{
		{"whole", dir, "", "init\nshutdown\ninit\nshutdown\n"},
		{"refused", dir, "9", ""},
		{"missing", t.TempDir(), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1", "-test.v")
			child.Env = append(os.Environ(), childVariable+"="+c.name, "LD_LIBRARY_PATH="+c.library, "FAKE_INIT="+c.init, "FAKE_LOG="+log)
			out, err := child.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestChild") {
				t.Fatalf("%v: %s", err, out)
			}
			if got, err := os.ReadFile(log); string(got) != c.log || err != nil && c.log != "" {
				t.Errorf("NVML saw %q (%v), want %q", got, err, c.log)
			}
		})
	}
}

func TestChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "whole":
		childWhole(t)
		childWhole(t) // it can be loaded again
	case "refused":
		childFails(t, Refused, "Driver Not Loaded")
	case "missing":
		if _, err := Open().NVML(t.Context()); err == nil && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
			t.Log("a machine with a GPU has the library where every program finds it")
			return
		}
		childFails(t, NoLibrary, "libnvidia-ml.so.1")
	default:
		t.Skip("TestNVML's child only")
	}
}

func childWhole(t *testing.T) {
	a, b := OpenTree(t.TempDir()), OpenTree(t.TempDir())
	i, err := a.Query(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want string }{
		{fmt.Sprint(i.UUID), "{GPU-fake nvml <nil>}"}, {fmt.Sprint(i.Current), "{Gen4 x8 nvml <nil>}"},
		{fmt.Sprint(i.Replays), "{3 nvml <nil>}"}, {fmt.Sprint(i.Temperature), "{55 nvml <nil>}"}, {fmt.Sprint(i.Utilisation), "{{90 10} nvml <nil>}"},
		{fmt.Sprint(i.Memory), "{{1000 600 400} nvml <nil>}"}, {fmt.Sprint(i.ECC), "{{8 1} nvml <nil>}"},
		{fmt.Sprint(i.BAR1.Err), "nvmlDeviceGetBAR1MemoryInfo is not available: refused: Not Supported"},
		{fmt.Sprint(i.OwnGeneration.Err), "nvmlDeviceGetGpuMaxPcieLinkGeneration is not available: library too old"},
		{fmt.Sprint(i.NUMANode.Err), "nvmlDeviceGetMemoryAffinity is not available: library too old"},
		{fmt.Sprint(i.Max.Err), "nvmlDeviceGetMaxPcieLinkGeneration is not available: not reported: it answers 0"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	if !slices.Equal(i.CPUs.Value, []int{0, 2, 8191}) {
		t.Errorf("CPUs %v", i.CPUs)
	}
	if v, err := b.NVML(t.Context()); v != "580.82.07" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	// The other Reader still holds NVML.
	if got, err := b.Throughput(t.Context(), address); got != (Throughput{Received: 11_000, Sent: 22_000}) || err != nil {
		t.Errorf("throughput %v, %v", got, err)
	}
	if _, err := b.Query(t.Context(), "0000:02:00.0"); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("an address without a GPU: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func childFails(t *testing.T, reason Reason, detail string) {
	r := Open()
	for range 2 { // a failure does not stay: the second call asks again
		_, err := r.NVML(t.Context())
		var u *UnavailableError
		if !errors.As(err, &u) || u.Reason != reason || !strings.Contains(u.Error(), detail) {
			t.Errorf("got %v, want %s: %s", err, reason, detail)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
