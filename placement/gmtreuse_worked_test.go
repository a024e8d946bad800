package placement_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/tier"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the answers in testdata/reuse to what the code says now")

// TestReuseWorkedHistories replays the commented histories in testdata/reuse
// on the real page table. In a file, lines of # are comments, then comes a
// command, a line of dashes, its answer and an empty line. The commands:
//
//	machine t1=FRAMES t2=FRAMES POLICY    start anew; answers the policy's name
//	access PAGES...                       5, 0-9 in order; 7w is written, 0-9x4
//	                                      has each used four times in a row
//	loop rounds=N PAGES...                the same pages N times
//	mix rounds=N hot=PAGES scan=PAGES     N passes over scan, and after each
//	                                      page of it the next of hot
//	page P                                what gmt-reuse knows of the page
//	report                                what gmt-reuse reports
//
// access, loop and mix answer with what each round added to the counters:
// accesses found in each tier, victims kept, demoted and bypassed, and writes
// to T3.
func TestReuseWorkedHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/reuse/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareLines(t, got, string(raw))
		})
	}
}

// compareLines reports the first line that differs.
func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g) || i >= len(w):
			t.Errorf("%d lines, want %d", len(g), len(w))
		case g[i] != w[i]:
			t.Errorf("line %d:\ngot  %s\nwant %s", i+1, g[i], w[i])
		default:
			continue
		}
		return
	}
}

// replay runs the commands of a file and returns it with the answers that
// they give now.
func replay(t *testing.T, in string) string {
	t.Helper()
	var out strings.Builder
	var h history
	answer := false // within an answer of the file, to be left out
	for line := range strings.SplitSeq(in, "\n") {
		switch {
		case line == "":
			if answer = false; !strings.HasSuffix(out.String(), "\n\n") {
				out.WriteByte('\n')
			}
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		case !answer:
			text, err := h.run(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out.WriteString(line + "\n----\n" + text + "\n")
			answer = true
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// history is one machine and its counters so far.
type history struct {
	m     *tier.Machine
	reuse *placement.GMTReuse // nil for another placer
	was   tier.Counters
}

// knownPages bounds the pages of a history.
const knownPages = 2000

// run performs one command and returns its answer.
func (h *history) run(line string) (string, error) {
	words := strings.Fields(line)
	args := words[1:]
	switch words[0] {
	case "machine":
		return h.machine(args)
	case "access":
		return h.rounds(1, args, nil)
	case "loop", "mix":
		n, err := strconv.Atoi(strings.TrimPrefix(args[0], "rounds="))
		if err != nil {
			return "", err
		}
		if words[0] == "loop" {
			return h.rounds(n, args[1:], nil)
		}
		return h.rounds(n, []string{strings.TrimPrefix(args[2], "scan=")}, []string{strings.TrimPrefix(args[1], "hot=")})
	case "page":
		p, err := strconv.Atoi(args[0])
		return h.reuse.HistoryOf(placement.Page(p)), err
	case "report":
		return h.reuse.Report().String(), nil
	}
	return "", fmt.Errorf("unknown command %q", words[0])
}

func (h *history) machine(args []string) (string, error) {
	env := placement.Env{Pages: knownPages, Seed: 1}
	spec, err := placement.Parse(args[2])
	if err != nil {
		return "", err
	}
	if _, err := fmt.Sscanf(args[0]+" "+args[1], "t1=%d t2=%d", &env.T1Frames, &env.T2Frames); err != nil {
		return "", err
	}
	p, err := spec.Build(env)
	if err != nil {
		return "", err
	}
	*h = history{}
	h.reuse, _ = p.Placer.(*placement.GMTReuse)
	h.m, err = tier.New(tier.Config{Pages: knownPages, T1: p.T1, T2: p.T2, Placer: p.Placer, KeepT2Copy: p.KeepT2Copy})
	return spec.String(), err
}

// rounds runs the accesses n times, with the next of between after each.
func (h *history) rounds(n int, pages, between []string) (string, error) {
	accs, err := accesses(pages)
	if err != nil {
		return "", err
	}
	others, err := accesses(between)
	if err != nil {
		return "", err
	}
	var lines []string
	next := 0
	for range n {
		for _, a := range accs {
			h.m.Run([]tier.Access{a})
			if len(others) > 0 {
				h.m.Run(others[next : next+1])
				next = (next + 1) % len(others)
			}
		}
		c := h.m.Counters()
		lines = append(lines, change(h.was, c))
		h.was = c
		if err := h.m.Check(); err != nil {
			return "", err
		}
	}
	return strings.Join(lines, "\n"), nil
}

// change is what happened between two counts.
func change(a, b tier.Counters) string {
	return fmt.Sprintf("t1 %d, t2 %d, t3 %d; kept %d, demoted %d, bypassed %d; written %d",
		b.T1Hits-a.T1Hits, b.T2Hits-a.T2Hits, b.T3Fetches-a.T3Fetches,
		b.Keeps-a.Keeps, b.Demotions-a.Demotions, b.Bypasses-a.Bypasses, b.Writebacks-a.Writebacks)
}

// accesses reads pages: 5, 0-9, 7w, 0-9x4.
func accesses(words []string) ([]tier.Access, error) {
	var accs []tier.Access
	for _, w := range words {
		op := tier.Read
		if text, ok := strings.CutSuffix(w, "w"); ok {
			w, op = text, tier.Write
		}
		w, times, repeated := strings.Cut(w, "x")
		if !repeated {
			times = "1"
		}
		n, err := strconv.Atoi(times)
		if err != nil {
			return nil, err
		}
		first, last, isRange := strings.Cut(w, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return nil, err
		}
		to, err := strconv.Atoi(last)
		if err != nil || from < 0 || to >= knownPages {
			return nil, fmt.Errorf("pages %s: %v", w, err)
		}
		for p := from; p <= to; p++ {
			for range n {
				accs = append(accs, tier.MakeAccess(placement.Page(p), op))
			}
		}
	}
	return accs, nil
}
