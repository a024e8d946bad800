package qemu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Outcome is how a guest test ended.
type Outcome string

// The outcomes that Go's test binary prints.
const (
	Pass Outcome = "PASS"
	Fail Outcome = "FAIL"
	Skip Outcome = "SKIP"
)

// Result is one test or subtest of the guest.
type Result struct {
	Name    string
	Outcome Outcome
}

// report gathers what a guest prints.
type report struct {
	results []Result
	done    bool // the line DONE was seen
	code    int  // the number it carried: the test binary's exit status
}

// marker precedes the framework's own lines under -test.v=test2json, so that a test's output cannot be taken for them.
const marker = "\x16"

// line takes one line of the guest's output.
func (r *report) line(s string) {
	s = strings.TrimRight(s, "\r")
	if n, ok := strings.CutPrefix(s, "DONE "); ok {
		if c, err := strconv.Atoi(n); err == nil {
			r.done, r.code = true, c
		}
		return
	}
	_, s, ok := strings.Cut(s, marker) // output without a final newline may stand before it
	if !ok {
		return
	}
	for _, o := range []Outcome{Pass, Fail, Skip} {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(s, " "), "--- "+string(o)+": "); ok {
			name, _, _ := strings.Cut(rest, " ")
			r.results = append(r.results, Result{name, o})
		}
	}
}

// check lists everything that makes a run not count as passed; listed are the top-level tests that must have been reported.
func (r *report) check(exit int, listed []string, minimum int, allowSkip []string) (problems []string) {
	bad := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	if exit != exitOK {
		bad("QEMU's exit status is %d, want %d", exit, exitOK)
	}
	switch {
	case !r.done:
		bad("the guest never printed DONE")
	case r.code != 0:
		bad("the guest's tests ended with status %d", r.code)
	}
	passed, top := 0, map[string]int{}
	for _, x := range r.results {
		if !strings.Contains(x.Name, "/") {
			top[x.Name]++
		}
		switch {
		case x.Outcome == Pass:
			passed++
		case x.Outcome == Skip && !slices.Contains(allowSkip, x.Name):
			bad("%s was skipped", x.Name)
		}
	}
	for _, n := range listed {
		if top[n] != 1 {
			bad("%s was reported %d times, want once", n, top[n])
		}
	}
	if len(top) != len(listed) {
		bad("%d tests were reported, the binary lists %d", len(top), len(listed))
	}
	if passed < minimum {
		bad("%d tests and subtests passed, want at least %d", passed, minimum)
	}
	return problems
}
