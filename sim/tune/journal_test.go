package tune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// counting evaluates nothing and counts what it is asked for.
type counting struct{ asked int }

func (c *counting) Evaluate(_ context.Context, tasks []Task, done func(i int, o Outcome)) error {
	for i := range tasks {
		c.asked++
		done(i, Outcome{Windows: []Counts{{SSDReads: uint64(tasks[i].Seed)}}, Share: 0.1, Weight: 10.125})
	}
	return nil
}

func tasksUpTo(n int) []Task {
	var out []Task
	for i := range n {
		out = append(out, Task{Trace: "t", Cuts: []int{1}, Rate: 1, Seed: uint64(i)})
	}
	return out
}

// Wherever a journal is cut, what was whole is known and only the rest is
// evaluated again, with the same outcomes.
func TestJournalSurvivesAnyCut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole")
	const n = 7
	run := func(path string) (asked, resumed int, err error) {
		c := &counting{}
		j, err := OpenJournal(path, []string{"t"}, c)
		if err != nil {
			return 0, 0, err
		}
		defer j.Close()
		got := map[int]Outcome{}
		err = j.Evaluate(t.Context(), tasksUpTo(n), func(i int, o Outcome) { got[i] = o })
		for i := range n {
			if got[i].Windows[0].SSDReads != uint64(i) || got[i].Weight != 10.125 {
				t.Errorf("outcome %d is %+v", i, got[i])
			}
		}
		return c.asked, j.Resumed, err
	}
	if asked, _, err := run(path); asked != n || err != nil {
		t.Fatal(asked, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		cut := rapid.IntRange(0, len(whole)).Draw(rt, "cut")
		part := filepath.Join(dir, "part")
		if err := os.WriteFile(part, whole[:cut], 0o644); err != nil {
			rt.Fatal(err)
		}
		lines := max(strings.Count(string(whole[:cut]), "\n")-1, 0)
		asked, resumed, err := run(part)
		if err != nil || asked != n-lines || resumed != lines {
			rt.Fatalf("%d whole lines: %d resumed, %d evaluated, %v", lines, resumed, asked, err)
		}
		if again, err := os.ReadFile(part); err != nil || len(again) != len(whole) {
			rt.Fatalf("mended, it has %d bytes, %d before: %v", len(again), len(whole), err)
		}
	})
}

func TestJournalRefuses(t *testing.T) {
	dir := t.TempDir()
	good := `{"journal":"tritier tune","version":2,"tasks":1,"traces":["a","b"]}` + "\n"
	made := journalLine{Key: "k", Outcome: Outcome{Windows: []Counts{{Accesses: 10, SSDReads: 7}, {Accesses: 5}}, Share: 1, Weight: 1}}
	made.Sum = made.sum()
	raw, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	line := string(raw) + "\n"
	for name, c := range map[string]struct{ content, want string }{
		"fine":            {good + line, ""},
		"new":             {"", ""},
		"cut":             {good + line[:20], ""},
		"cut head":        {good[:30], ""},
		"other text":      {"hello\n", "no journal of tritier tune"},
		"other text, cut": {"hello", "no journal of tritier tune"},
		"other json":      {`{"policy":"lru"}` + "\n", "no journal of tritier tune"},
		"version":         {strings.Replace(good, `"version":2`, `"version":1`, 1), "a journal of version 1.1, this program writes version 2.1"},
		"tasks":           {strings.Replace(good, `"tasks":1`, `"tasks":9`, 1), "a journal of version 2.9"},
		"traces":          {strings.Replace(good, `"b"`, `"c"`, 1), "a journal of other traces"},
		"fewer traces":    {strings.Replace(good, `,"b"`, ``, 1), "a journal of other traces"},
		"damaged":         {good + "{]\n" + line, "line 2 is damaged"},
		"a digit":         {good + strings.Replace(line, `"ssd_reads":7`, `"ssd_reads":9`, 1), "line 2 is damaged"},
		"another key":     {good + strings.Replace(line, `"key":"k"`, `"key":"l"`, 1), "line 2 is damaged"},
		"no share":        {good + strings.Replace(line, `"share":1`, `"share":0`, 1), "line 2 is damaged"},
		"a window less":   {good + line[:strings.Index(line, "},{")] + line[strings.Index(line, "}],"):], "line 2 is damaged"},
		"no checksum":     {good + line[:strings.Index(line, `,"sum"`)] + "}\n", "line 2 is damaged"},
		"unknown field":   {good + line + strings.Replace(line, `"share"`, `"shore"`, 1), "line 3 is damaged"},
	} {
		path := filepath.Join(dir, "journal")
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path, []string{"b", "a"}, &counting{})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if err := j.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		var wrong *JournalError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != c.content {
			t.Errorf("%s: the file was changed", name)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/null"} {
		var wrong *JournalError
		if _, err := OpenJournal(path, nil, &counting{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), path+": a folder, pipe or device") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := OpenJournal(filepath.Join(dir, "nowhere", "j"), nil, &counting{}); err == nil {
		t.Error("a folder that is not there is accepted")
	}
}

// Two runs cannot write one journal, and a journal that cannot be written ends
// the run with an error.
func TestJournalHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, err := OpenJournal(path, []string{"t"}, &counting{})
	if err != nil {
		t.Fatal(err)
	}
	var busy *JournalError
	if _, err := OpenJournal(path, []string{"t"}, &counting{}); !errors.As(err, &busy) {
		t.Errorf("a second writer: %v", err)
	}
	j.file.Close() // as if the disk were gone
	if err := j.Evaluate(t.Context(), tasksUpTo(3), func(int, Outcome) {}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("outcomes that cannot be kept: %v", err)
	}
}
