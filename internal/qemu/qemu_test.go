package qemu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReportCounts(t *testing.T) {
	const good = "\x16=== RUN   TestA\n    a_test.go:1: --- FAIL: TestA (0.00s)\nprinted\x16--- PASS: TestA (0.00s)\n" +
		"\x16    --- PASS: TestB/x (0.01s)\r\n\x16    --- SKIP: TestB/y (0.00s)\n\x16--- PASS: TestB (0.01s)\n\nDONE 0\n"
	for _, x := range []struct {
		name    string
		output  string
		exit    int
		listed  []string
		minimum int
		skip    []string
		want    string // part of a problem, "" for none
	}{
		{"good", good, 33, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, ""},
		{"skipped without leave", good, 33, []string{"TestA", "TestB"}, 3, nil, "TestB/y was skipped"},
		{"too few", good, 33, []string{"TestA", "TestB"}, 4, []string{"TestB/y"}, "3 tests and subtests passed, want at least 4"},
		{"one is missing", good, 33, []string{"TestA", "TestB", "TestC"}, 3, []string{"TestB/y"}, "TestC was reported 0 times"},
		{"one is unknown", good, 33, []string{"TestA"}, 3, []string{"TestB/y"}, "2 tests were reported, the binary lists 1"},
		{"crashed PID 1", good, 0, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "exit status is 0"},
		{"QEMU's own error", good, 1, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "exit status is 1"},
		{"did not come to its end", strings.ReplaceAll(good, "DONE 0", ""), 33, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "never printed DONE"},
		{"tests failed", strings.ReplaceAll(good, "DONE 0", "DONE 1"), 33, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "ended with status 1"},
		{"DONE is not a number", strings.ReplaceAll(good, "DONE 0", "DONE soon"), 33, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "never printed DONE"},
		{"reported twice", good + "\x16--- PASS: TestA (0.00s)\n", 33, []string{"TestA", "TestB"}, 3, []string{"TestB/y"}, "TestA was reported 2 times"},
	} {
		var r report
		for l := range strings.Lines(x.output) {
			r.line(strings.TrimSuffix(l, "\n"))
		}
		problems := r.check(x.exit, x.listed, x.minimum, x.skip)
		if x.want == "" && len(problems) > 0 || x.want != "" && !strings.Contains(strings.Join(problems, "\n"), x.want) {
			t.Errorf("%s: problems %q, want %q", x.name, problems, x.want)
		}
	}
}

func TestArguments(t *testing.T) {
	c := Config{IOMMU: true, Modules: true, Run: "^TestX$", Params: map[string]string{"mode": "raw", "a": "b"}, Args: []string{"-drive", "file={dir}/x.img"}, TestArgs: []string{"-test.short"}}
	in := Install{Kernel: "/k/vmlinuz", Modules: []string{"/m/vfio.ko", "/m/vfio-pci.ko"}}
	a := c.arguments(in, "/d")
	app := a[slices.Index(a, "-append")+1]
	for _, want := range []string{"intel_iommu=on", "modules=vfio,vfio-pci", "a=b mode=raw", " -- ", "-test.run=^TestX$", "-test.short", "panic=-1", "-test.timeout=3m0s"} {
		if !strings.Contains(app, want) {
			t.Errorf("command line %q lacks %q", app, want)
		}
	}
	if !slices.Contains(a, "intel-iommu,intremap=on,caching-mode=on") || !slices.Contains(a, "file=/d/x.img") {
		t.Errorf("arguments %q", a)
	}
	c = Config{}
	if a := strings.Join(c.arguments(in, "/d"), " "); strings.Contains(a, "iommu") || strings.Contains(a, "modules=") {
		t.Errorf("not asked for: %s", a)
	}
}

// TestInitrd reads the archive back with an independent reader of the format.
func TestInitrd(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"init": "the program", "vfio.ko": "abc", "tool": "more"} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeInitrd(dir+"/initrd", dir+"/init", []string{dir + "/vfio.ko"}, map[string]string{"/bin/sub/tool": dir + "/tool"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(dir + "/initrd")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	field := func(i int) (v int) {
		if _, err := fmt.Sscanf(string(b[6+8*i:14+8*i]), "%08x", &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for len(b) >= 110 && string(b[:6]) == "070701" {
		size, nameSize, mode := field(6), field(11), field(1)
		name := string(b[110 : 110+nameSize-1])
		at := (110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			break
		}
		got = append(got, fmt.Sprintf("%s %o %q", name, mode, b[at:at+size]))
		b = b[(at+size+3)&^3:]
	}
	want := []string{`dev 40755 ""`, `dev/console 20600 ""`, `init 100755 "the program"`, `modules 40755 ""`, `modules/vfio.ko 100755 "abc"`,
		`bin 40755 ""`, `bin/sub 40755 ""`, `bin/sub/tool 100755 "more"`}
	if !slices.Equal(got, want) {
		t.Errorf("archive %q, want %q", got, want)
	}
	if err := writeInitrd(dir+"/initrd", dir+"/nothing", nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a program: %v", err)
	}
}

func TestFindNeedsAWholeSetup(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Mkdir(dir+"/modules", 0o755), os.WriteFile(dir+"/modules/vfio.ko", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	missing := func(what string) {
		t.Helper()
		_, err := find(dir)
		var m *MissingError
		if !errors.As(err, &m) || !strings.Contains(m.What, what) || !strings.Contains(err.Error(), ".ci/qemu-setup") {
			t.Errorf("%v, want %q to be missing", err, what)
		}
	}
	missing("qemu-system-x86_64")
	if err := os.WriteFile(bin+"/qemu-system-x86_64", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	missing("kernel")
	if err := os.WriteFile(dir+"/version", []byte("6.1.0-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing("kernel")
	if err := os.WriteFile(dir+"/vmlinuz", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := find(dir)
	if err != nil || in.Version != "6.1.0-1" || !slices.Equal(in.Modules, []string{dir + "/modules/vfio.ko"}) {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestRequired(t *testing.T) {
	for v, want := range map[string]bool{"": false, "qemu": true, "gpu,qemu": true, "qemux": false} {
		t.Setenv("REQUIRE", v)
		if Required("qemu") != want {
			t.Errorf("REQUIRE=%q: %v", v, !want)
		}
	}
}

// TestMain lets the test binary itself play QEMU: the arguments name the sockets, the environment says how it ends.
func TestMain(m *testing.M) {
	if how := os.Getenv("FAKE_QEMU"); how != "" {
		fakeQEMU(how)
	}
	os.Exit(m.Run())
}

func fakeQEMU(how string) {
	socket := func(prefix string) net.Listener {
		for _, a := range os.Args {
			if p, ok := strings.CutPrefix(a, "unix:"); ok && strings.Contains(p, prefix) {
				p, _, _ = strings.Cut(p, ",")
				l, err := net.Listen("unix", p)
				if err != nil {
					os.Exit(99)
				}
				return l
			}
		}
		os.Exit(98)
		return nil
	}
	if how == "usage" {
		fmt.Fprintln(os.Stderr, "unknown option")
		os.Exit(1)
	}
	ctl, qmp := socket("/ctl"), socket("/qmp")
	guest, err := ctl.Accept()
	if err != nil {
		os.Exit(97)
	}
	control, err := qmp.Accept()
	if err != nil {
		os.Exit(97)
	}
	in := bufio.NewReader(control)
	fmt.Fprint(control, "{\"QMP\": {}}\r\n")
	in.ReadString('\n')
	fmt.Fprint(control, "{\"return\": {}}\r\n")
	if how == "hang" {
		time.Sleep(time.Minute) // not select{}: without cgo the runtime would call it a deadlock
	}
	fmt.Fprint(guest, "\x16--- PASS: TestA (0.00s)\n@QMP {\"execute\":\"x\"}\n")
	cmd, _ := in.ReadString('\n')
	fmt.Fprintf(control, "{\"event\": \"STOP\"}\r\n{\"return\": %s}\r\n", strings.TrimSpace(cmd))
	reply, _ := bufio.NewReader(guest).ReadString('\n')
	fmt.Fprintf(guest, "reply %s\nDONE 0\n", strings.TrimSpace(reply))
	code := 33
	if how == "crash" {
		code = 0
	}
	if how == "segfault" {
		// Go's runtime catches signals to itself; a shell dies of them.
		syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, nil)
	}
	os.Exit(code)
}

func TestRunTalksToQEMU(t *testing.T) {
	self, err := exec.LookPath(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		how     string
		exit    int
		err     string
		results int
	}{
		{"good", 33, "", 1}, {"crash", 0, "", 1}, {"usage", 1, "unknown option", 0}, {"hang", -1, "stopped after 1s", 0},
		{"segfault", -1, "QEMU crashed", 1},
	} {
		t.Run(x.how, func(t *testing.T) {
			t.Setenv("FAKE_QEMU", x.how)
			dir, err := os.MkdirTemp("", "qemu")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			m := &machine{config: &Config{Timeout: 10 * time.Second}, dir: dir, log: func(string) {}}
			if x.how == "hang" {
				m.config.Timeout = time.Second
			}
			start := time.Now()
			exit, err := m.run(context.Background(), Install{QEMU: self})
			if exit != x.exit || len(m.report.results) != x.results {
				t.Errorf("exit %d, %d results, want %d and %d (%v)", exit, len(m.report.results), x.exit, x.results, err)
			}
			if x.err == "" && err != nil || x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)) {
				t.Errorf("error %v, want %q", err, x.err)
			}
			if d := time.Since(start); d > 8*time.Second {
				t.Errorf("took %v", d)
			}
			if x.how == "good" && !bytes.Contains(m.output.Bytes(), []byte(`reply @OK {"return": {"execute":"x"}}`)) {
				t.Errorf("the guest's command did not come back: %q", m.output.Bytes())
			}
		})
	}
}
