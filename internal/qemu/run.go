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
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxOutput bounds how much of the guest's output is kept for a failure's report.
const maxOutput = 64 << 10

// Test boots a guest and reports its tests as subtests of t. It skips without QEMU and under -short, or fails with REQUIRE=qemu.
func Test(t *testing.T, c Config) {
	t.Helper()
	if testing.Short() && !Required("qemu") {
		t.Skip("boots a guest: not under -short")
	}
	in, err := Find()
	if err != nil {
		if Required("qemu") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	if len(dir) > 80 {
		// A Unix socket's path has room for 107 bytes.
		if dir, err = os.MkdirTemp("", "qemu"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	listed, err := build(t.Context(), &c, in, dir)
	if err != nil {
		t.Fatal(err)
	}
	for boot := 1; ; boot++ {
		m := &machine{config: &c, dir: dir, log: func(string) {}}
		if testing.Verbose() {
			m.log = func(s string) { t.Log("| " + s) }
		}
		start := time.Now()
		exit, err := m.boot(t.Context(), in)
		var crash *CrashError
		if errors.As(err, &crash) && boot < maxBoots {
			t.Logf("boot %d of at most %d: %v, after %d results; once more", boot, maxBoots, err, len(m.report.results))
			continue
		}
		t.Logf("guest: %d results, kernel %s, %v", len(m.report.results), in.Version, time.Since(start).Round(10*time.Millisecond))
		m.verdict(t, exit, listed, err)
		return
	}
}

// maxBoots bounds how often a guest is booted because QEMU crashed. QEMU 7.2 does when an NVMe controller is reset before it has fetched
// what was just submitted: it goes on fetching while it drains one namespace after the other, and such a command ends after its queue was
// freed. The busier the host, the more often. What the driver does wrong would crash it each time, or fail a test.
const maxBoots = 4

// CrashError says that QEMU itself died of a signal that nobody sent.
type CrashError struct{ Signal syscall.Signal }

func (e *CrashError) Error() string { return fmt.Sprintf("qemu: QEMU crashed: %v", e.Signal) }

// boot makes empty disks and runs the guest once.
func (m *machine) boot(ctx context.Context, in Install) (exit int, err error) {
	for name, size := range m.config.Disks {
		if err := sparse(filepath.Join(m.dir, name), size); err != nil {
			return -1, err
		}
	}
	return m.run(ctx, in)
}

// verdict turns a run's results into subtests and fails t for whatever makes the run not count.
func (m *machine) verdict(t *testing.T, exit int, listed []string, err error) {
	t.Helper()
	for _, r := range m.report.results {
		t.Run(r.Name, func(t *testing.T) {
			switch r.Outcome {
			case Fail:
				t.Error("failed in the guest, see its output")
			case Skip:
				t.Skip("skipped in the guest")
			}
		})
	}
	problems := m.report.check(exit, listed, m.config.MinPass, m.config.MaySkip)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		t.Errorf("the guest's run does not count:\n  %s\noutput:\n%s\nconsole:\n%s",
			strings.Join(problems, "\n  "), m.output.Bytes(), tail(filepath.Join(m.dir, "console.txt"), 4000))
	}
}

// build makes the guest's files in dir and lists the tests that will run.
func build(ctx context.Context, c *Config, in Install, dir string) (listed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	init := filepath.Join(dir, "init")
	args, env := []string{"test", "-c", "-o", init, "-ldflags=-s -w", c.Package}, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}
	if os.Getenv("TRITIER_QEMU_RACE") != "" {
		// The race detector's runtime needs the C library: link it in statically, since the guest has no files of its own.
		args = []string{"test", "-c", "-o", init, "-race", "-ldflags=-linkmode=external -extldflags=-static", c.Package}
		env[0] = "CGO_ENABLED=1"
	}
	if _, err := output(ctx, env, "go", args...); err != nil {
		return nil, err
	}
	// A part after a slash selects subtests, which cannot be listed.
	pattern, _, _ := strings.Cut(c.Run, "/")
	if pattern == "" {
		pattern = "."
	}
	out, err := output(ctx, nil, init, "-test.list="+pattern)
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(out) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "Test") {
			listed = append(listed, l)
		}
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("qemu: no test in %s matches %q", c.Package, pattern)
	}
	var modules []string
	if c.Modules {
		modules = in.Modules
	}
	return listed, writeInitrd(filepath.Join(dir, "initrd"), init, modules, c.Files)
}

func sparse(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, size)
}

func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("qemu: %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// machine is one boot.
type machine struct {
	config *Config
	dir    string
	log    func(string)
	report report
	output bytes.Buffer // the guest's output, its first maxOutput bytes
}

// run boots the guest and gives QEMU's exit status. QEMU never outlives it.
func (m *machine) run(ctx context.Context, in Install) (exit int, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.timeout())
	defer cancel()
	cmd := exec.CommandContext(ctx, in.QEMU, m.config.arguments(in, m.dir)...)
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return -1, fmt.Errorf("qemu: %w", err)
	}
	// When QEMU dies at once (a usage error), nobody will ever answer on its sockets: waiting for it ends the talk.
	talkCtx, stopTalk := context.WithCancel(ctx)
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait(); stopTalk() }()
	talkErr := m.talk(talkCtx)
	if talkErr != nil {
		cancel() // the guest would wait for an answer until the time-out
	}
	waitErr := <-waited
	if s := strings.TrimSpace(stderr.String()); s != "" {
		waitErr = errors.Join(waitErr, errors.New(s))
	}
	exit = cmd.ProcessState.ExitCode()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && (ws.Signal() == syscall.SIGSEGV || ws.Signal() == syscall.SIGABRT) {
		return exit, errors.Join(&CrashError{ws.Signal()}, talkErr, waitErr)
	}
	switch {
	case ctx.Err() != nil && talkErr == nil:
		return exit, fmt.Errorf("qemu: stopped after %v", m.config.timeout())
	case exit == exitOK:
		return exit, talkErr
	}
	return exit, errors.Join(talkErr, waitErr)
}

// talk reads the guest's lines until it leaves, and carries its commands to QEMU.
func (m *machine) talk(ctx context.Context) error {
	// QEMU starts nothing before somebody listens here, so that no line is lost.
	guest, err := dial(ctx, filepath.Join(m.dir, "ctl"))
	if err != nil {
		return err
	}
	defer guest.Close()
	control, err := dialQMP(ctx, filepath.Join(m.dir, "qmp"))
	if err != nil {
		return err
	}
	defer control.close()
	defer context.AfterFunc(ctx, func() { guest.Close() })()
	in := bufio.NewScanner(guest)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if err := m.line(in.Text(), guest, control); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("qemu: the guest's output: %w", err)
	}
	return nil
}

func (m *machine) line(s string, guest net.Conn, control *qmp) error {
	if command, ok := strings.CutPrefix(s, "@QMP "); ok {
		reply, err := control.do(strings.TrimSpace(command))
		if err != nil {
			return err
		}
		m.log(command + " -> " + reply)
		_, err = fmt.Fprintln(guest, "@OK", reply)
		return err
	}
	m.report.line(s)
	if s = strings.ReplaceAll(s, marker, ""); s != "" {
		m.log(s)
		if m.output.Len() < maxOutput {
			m.output.WriteString(s + "\n")
		}
	}
	return nil
}

// tail is the end of a file, at most n bytes of it.
func tail(path string, n int) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-n):]
}
