package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain lets scripts run this test binary as tritier.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tritier": scriptMain})
}

func TestTraceScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/trace_*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "awaitfile": awaitFile,
		},
	})
}

// refuses checks that tritier with these arguments gives one line with a text
// on standard error, nothing on standard output, a status that is not 0, and
// no new file.
func refuses(ts *testscript.TestScript, _ bool, args []string) {
	before := files(ts)
	if err := ts.Exec("tritier", args[1:]...); err == nil || err.Error() != "exit status 1" {
		ts.Fatalf("%q: %v, want exit status 1", args[1:], err)
	}
	line := ts.ReadFile("stderr")
	if !strings.HasPrefix(line, "tritier: ") || strings.Count(line, "\n") != 1 || !strings.Contains(line, args[0]) {
		ts.Fatalf("%q: want one line with %q, got %s", args[1:], args[0], line)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("%q: on standard output: %s", args[1:], out)
	}
	if after := files(ts); after != before {
		ts.Fatalf("%q: files before:\n%s\nafter:\n%s", args[1:], before, after)
	}
}

// files lists the working directory, hidden files too.
func files(ts *testscript.TestScript) string {
	found, err := filepath.Glob(ts.MkAbs("*"))
	ts.Check(err)
	hidden, err := filepath.Glob(ts.MkAbs(".*"))
	ts.Check(err)
	return strings.Join(append(found, hidden...), "\n")
}

// awaitFile waits until a file of a pattern exists.
func awaitFile(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if found, err := filepath.Glob(ts.MkAbs(args[0])); err == nil && len(found) > 0 {
			return
		}
	}
	ts.Fatalf("no file %s", args[0])
}

// lockedBuffer is a buffer for a writer in another goroutine.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the buffer holds a text.
func (l *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if strings.Contains(l.String(), text) {
			return
		}
	}
	t.Fatalf("no %q in %q", text, l.String())
}

func TestProgress(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out lockedBuffer
	stop := showProgress(&out, "reading", func() (int64, int64) { return 25, 100 }, 0)
	out.await(t, "reading 25 %")
	out.await(t, "ETA")
	stop()
	stop()
	if !strings.HasSuffix(out.String(), eraseLine) {
		t.Errorf("the line where a terminal echoes Ctrl-C is not erased: %q", out.String())
	}

	var spinner lockedBuffer
	stop = showProgress(&spinner, "counting", func() (int64, int64) { return 25, 0 }, 0)
	spinner.await(t, "counting")
	stop()

	var quiet lockedBuffer
	showProgress(&quiet, "brief", func() (int64, int64) { return 0, 1 }, time.Hour)()
	startProgress(&quiet, "no terminal", func() (int64, int64) { return 0, 1 })()
	if quiet.String() != "" {
		t.Errorf("a short run, or one without a terminal, wrote %q", quiet.String())
	}
}
