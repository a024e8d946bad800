package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The program's help says what it is about, whichever commands there are.
func TestRootHelp(t *testing.T) {
	root := newRootCommand()
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && !strings.Contains(root.Long, c.Name()) {
			t.Errorf("the help of tritier does not mention %s", c.Name())
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(root.Example), "\n") {
		c, rest, err := newRootCommand().Find(strings.Fields(line)[1:])
		if err != nil || errors.Join(c.ParseFlags(rest), c.ValidateArgs(c.Flags().Args())) != nil || c.Parent() == nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range strings.Split(root.Long, "\n") {
		if len(line) > 100 {
			t.Errorf("%d characters in one line: %s", len(line), line)
		}
	}
}

// Every command has examples, which are command lines that it takes.
func TestEveryCommandHasExamples(t *testing.T) {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		if c.IsAvailableCommand() && c.Name() != "help" && (strings.Count(c.Example, "\n") < 1 || !strings.HasPrefix(c.Example, "  "+c.CommandPath())) {
			t.Errorf("the help of %s has no examples, or they begin with another command: %q", c.CommandPath(), c.Example)
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	for _, c := range newRootCommand().Commands() {
		all(c)
	}
}

func TestErrorLine(t *testing.T) {
	long := strings.Repeat("ä", 50_000)
	for _, c := range []struct {
		err  error
		args []string
		want string
	}{
		{errors.New("plain \"quoted\" größe"), nil, `plain "quoted" größe`},
		{errors.Join(errors.New("a"), errors.New("b")), nil, "a; b"},
		{errors.New("x\ny: gone"), []string{"x\ny"}, `"x\ny": gone`},
		{errors.New("x\ny: gone"), []string{"--plot=x\ny"}, `"x\ny": gone`},
		{errors.New("\x1b[31m \"q\""), nil, `\x1b[31m "q"`},
		{errors.New("bad \xff"), nil, `bad \xff`},
	} {
		if got := errorLine(c.err, c.args); got != c.want {
			t.Errorf("%q: %s, want %s", c.err, got, c.want)
		}
	}
	got := errorLine(fmt.Errorf("policy %q: unknown; valid are lru", long), nil)
	if n := utf8.RuneCountInString(got); n > maxMessage || !strings.HasPrefix(got, `policy "ä`) || !strings.HasSuffix(got, "valid are lru") || !strings.Contains(got, "[...]") {
		t.Errorf("%d characters: %s", n, got)
	}
}

func TestBuildText(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	if got := buildText(info, true); !strings.HasPrefix(got, "tritier v1.2.3, commit abc with changes, go1") {
		t.Error(got)
	}
	if got := buildText(nil, false); !strings.HasPrefix(got, "tritier unknown, go1") {
		t.Error(got)
	}
}

// TestFaultNamesTheFile checks that a fault of the temporary file is told of
// the name that the user gave.
func TestFaultNamesTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, spoil := range map[string]func(o *output) error{
		"write":  func(o *output) error { return o.file.Close() },
		"rename": func(o *output) error { return os.Mkdir("out.ids", 0o700) },
	} {
		o, err := createOutput("out.ids", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Write([]byte("1\n"))
		if err := errors.Join(err, spoil(o)); err != nil {
			t.Fatal(err)
		}
		temporary := filepath.Base(o.temporary)
		err = o.commit()
		if err == nil || !strings.HasPrefix(err.Error(), "out.ids: cannot be") || strings.Contains(firstOf(err).Error(), temporary) {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.Remove("out.ids")
	}
}

// TestCutSaysWhile checks that an interruption is one for the exit status too.
func TestCutSaysWhile(t *testing.T) {
	err := error(&interruption{"while reading x"})
	if !errors.Is(err, context.Canceled) || err.Error() != "interrupted while reading x" {
		t.Error(err)
	}
}
