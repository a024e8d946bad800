// Package guest turns a static Go test binary into PID 1 of a guest that package qemu boots. It has an effect only there: [Main] runs the
// tests in the guest and does nothing elsewhere.
package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// setupFailed is the status of a guest that could not be set up; a test binary's own are 0, 1 and 2.
const setupFailed = 3

// Main is the TestMain of a package of guest tests. Outside a guest it says so and returns: such a package has nothing to test there.
func Main(m *testing.M) {
	if os.Getpid() != 1 {
		if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-test.list") {
			os.Exit(m.Run()) // the host asks which tests there are
		}
		fmt.Println("these tests run as PID 1 of a QEMU guest: see internal/qemu")
		return
	}
	if err := setup(); err != nil {
		fmt.Println("set-up of the guest:", err)
		exit(setupFailed)
	}
	code := m.Run()
	fmt.Printf("\nDONE %d\n", code)
	exit(code)
}

// setup mounts the kernel's file systems, moves the output to a serial port of its own, so that kernel messages do not mix with it, and
// loads the modules that the initial RAM disk brought.
func setup() error {
	for _, m := range []struct{ kind, dir string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := redirect("/dev/" + Param("out")); err != nil {
		return err
	}
	order := strings.Split(Param("modules"), ",")
	for _, m := range order {
		if m == "" {
			continue
		}
		if err := loadModule(m); err != nil {
			return err
		}
	}
	return nil
}

// redirect makes the terminal tty the process's standard input, output and error, without echo and without rewriting line ends.
func redirect(tty string) error {
	fd, err := unix.Open(tty, unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", tty, err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("%s: %w", tty, err)
	}
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return fmt.Errorf("%s: %w", tty, err)
	}
	for std := range 3 {
		if err := unix.Dup3(fd, std, 0); err != nil {
			return fmt.Errorf("%s: %w", tty, err)
		}
	}
	return nil
}

// loadModule does what insmod does, with the parameters "module.name=value" of the kernel command line, which the kernel itself hands to
// built-in code only.
func loadModule(name string) error {
	f, err := os.Open("/modules/" + name + ".ko")
	if err != nil {
		return err
	}
	defer f.Close()
	var params []string
	for _, w := range commandLine() {
		if p, ok := strings.CutPrefix(w, strings.ReplaceAll(name, "-", "_")+"."); ok {
			params = append(params, p)
		}
	}
	if err := unix.FinitModule(int(f.Fd()), strings.Join(params, " "), 0); err != nil {
		return fmt.Errorf("load module %s: %w", name, err)
	}
	return nil
}

func commandLine() []string {
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// Param is the value of key=value on the kernel command line, or "".
func Param(key string) string {
	for _, w := range commandLine() {
		if k, v, ok := strings.Cut(w, "="); ok && k == key {
			return v
		}
	}
	return ""
}

// stdin carries the host's answers.
var stdin = bufio.NewReader(os.Stdin)

// QMP has the host give QEMU a command of its control protocol and returns the reply; an error reply fails the test. One test at a time.
func QMP(t testing.TB, command string) string {
	t.Helper()
	fmt.Printf("\n@QMP %s\n", command)
	s, err := stdin.ReadString('\n')
	reply, ok := strings.CutPrefix(strings.TrimSpace(s), "@OK ")
	if err != nil || !ok || strings.HasPrefix(reply, `{"error"`) {
		t.Fatalf("QMP %s: reply %q, %v", command, s, err)
	}
	return reply
}

// HugePages sets the number of 2 MiB pages that the guest's kernel keeps, and fails the test when it cannot.
func HugePages(t testing.TB, n int) {
	t.Helper()
	const knob = "/proc/sys/vm/nr_hugepages"
	if err := os.WriteFile(knob, []byte(strconv.Itoa(n)), 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(knob); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(n) {
		t.Fatalf("%s is %q after writing %d (%v)", knob, b, n, err)
	}
}

// WaitFor polls until the file matching pattern is there (or is gone, with gone set), and fails the test after a deadline.
func WaitFor(t testing.TB, pattern string, gone bool, deadline time.Duration) {
	t.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(20 * time.Millisecond) {
		if m, err := filepath.Glob(pattern); err != nil || (len(m) == 0) == gone {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: gone=%v not reached within %v", pattern, gone, deadline)
		}
	}
}
