package iobenchfake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The double and the device's code give the same contents and buckets, and the
// device's table of errors loses none, whoever counts at the same time.
func TestDeviceFunctions(t *testing.T) {
	gxx, err := exec.LookPath("g++")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "g++") {
			t.Fatalf("REQUIRE has g++: %v", err)
		}
		t.Skip("no g++")
	}
	noticeSources(t, "testdata/*.cpp", "../*.cu", "../../device/*.cuh", "../../../cuda/device/*.cuh")
	program := filepath.Join(t.TempDir(), "functions")
	build := exec.CommandContext(t.Context(), gxx, "-std=c++17", "-O1", "-pthread", "-Wall", "-Wno-unused-function", "-I", "..", "-I", "../../device", "-I", "../../../cuda/device",
		"-o", program, "testdata/functions.cpp")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	counts := map[uint64]map[uint64]uint64{} // by run, status + 1
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		kind, rest, _ := strings.Cut(s.Text(), " ")
		seen[kind]++
		var v [6]uint64
		n, _ := fmt.Sscan(rest, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5])
		ok := false
		switch {
		case kind == "contents" && n == 3:
			ok = contents(v[0], v[1]) == v[2]
		case kind == "piece" && n == 6:
			var b [16]byte
			piece(b[:], v[0], v[1])
			ok = true
			for i := range 4 {
				ok = ok && uint64(binary.LittleEndian.Uint32(b[4*i:])) == v[2+i]
			}
		case kind == "bucket" && n == 2:
			ok = bucketOf(v[0]) == v[1]
		case kind == "wrong" && n == 1: // tables whose places were lost or taken twice
			ok = v[0] == 0
		case kind == "status" && n == 3:
			if counts[v[0]] == nil {
				counts[v[0]] = map[uint64]uint64{}
			}
			_, twice := counts[v[0]][v[1]]
			ok = v[1] == 0 && v[2] == 0 || v[1] != 0 && !twice
			counts[v[0]][v[1]] = v[2]
		}
		if !ok {
			t.Errorf("the device gives %q", s.Text())
		}
	}
	if seen["contents"] != 30 || seen["piece"] != 36 || seen["bucket"] < 100 || seen["status"] != 2*statuses || seen["wrong"] != 1 {
		t.Errorf("lines %v", seen)
	}
	for kinds, each := range map[uint64]uint64{5: 4 * 200000, statuses + 8: 4 * 20} {
		got := counts[kinds]
		delete(got, 0) // free places
		if uint64(len(got)) != min(kinds, statuses) {
			t.Errorf("%d statuses of %d kinds", len(got), kinds)
		}
		for status, n := range got {
			if n != each || (status-1)%0x10001 != 0 || (status-1)/0x10001 >= kinds {
				t.Errorf("%d of status %#x, want %d", n, status-1, each)
			}
		}
	}
}

// noticeSources opens files that the compiler reads, so that go test does not give
// an old result once they have changed.
func noticeSources(t *testing.T, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil || len(names) == 0 {
			t.Fatalf("no files %s: %v", p, err)
		}
		for _, n := range names {
			if _, err := os.ReadFile(n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No two drives have the same contents under one seed.
func TestContentsDiffer(t *testing.T) {
	seen := map[uint64]uint64{}
	for drive := range uint64(10000) {
		c := contents(42, drive)
		if other, ok := seen[c]; ok {
			t.Fatalf("drives %d and %d have the same contents", other, drive)
		}
		seen[c] = drive
	}
}
