package devicerig

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Mutant is a mistake put into a device header, which the rig must notice in the trial
// that is made for it.
type Mutant struct {
	Name, File string
	Old, New   string // what File has once, and what stands there instead
	Build      Build
	Args       string // of the trial
}

// Mutants are the mistakes of one package of tests.
type Mutants struct {
	Rig  *Rig
	List []Mutant
	// Attempt runs one trial.
	Attempt func(t *testing.T, bin, args string, seed uint64) error
	// Control runs it without a mistake, when nothing may be found.
	Control func(t *testing.T, bin, args string) error
	// Edit, if not nil, changes a header besides: to make a mistake show sooner.
	Edit func(t *testing.T, file, text string) string
}

// mutantSeeds is how many trials a mistake has to stay unnoticed for.
const mutantSeeds = 6

// Run has the rig notice each mistake within a few seeds. MUTANTS says which: all, or
// those with a text in their names; without it there is none.
func (m *Mutants) Run(t *testing.T) {
	wanted := os.Getenv("MUTANTS")
	if wanted == "" {
		t.Skip("takes a compilation for each mistake, minutes in all: set MUTANTS=all, or to a part of their names")
	}
	Compiler(t)
	chosen := slices.DeleteFunc(slices.Clone(m.List), func(x Mutant) bool { return wanted != "all" && !strings.Contains(x.Name, wanted) })
	if len(chosen) == 0 {
		t.Fatalf("MUTANTS=%s is part of no name", wanted)
	}
	m.control(t, chosen)
	concurrently(len(chosen), func(i int) {
		t.Run(strings.ReplaceAll(chosen[i].Name, " ", "-"), func(t *testing.T) { m.one(t, chosen[i]) })
	})
}

// one tries a mistake.
func (m *Mutants) one(t *testing.T, x Mutant) {
	b := x.Build
	if b.Name == Plain.Name {
		b.Flags = []string{"-O0"} // quick to compile, and a mistake may leave variables unused
	}
	bin := filepath.Join(t.TempDir(), "rig")
	m.Rig.Compile(t, "rig.cpp", m.mutate(t, x), bin, b)
	for seed := range uint64(mutantSeeds) {
		if err := m.Attempt(t, bin, x.Args, seed+1); err != nil {
			t.Log("noticed: ", firstProblem(err))
			return
		}
	}
	t.Error("nobody noticed")
}

// control runs each trial once without a mistake.
func (m *Mutants) control(t *testing.T, chosen []Mutant) {
	bin := m.Rig.Program(t, "rig.cpp", Plain)
	seen := map[string]bool{}
	for _, x := range chosen {
		if seen[x.Args] {
			continue
		}
		seen[x.Args] = true
		if err := m.Control(t, bin, x.Args); err != nil {
			t.Errorf("without any mistake: %v", err)
		}
	}
}

// mutate copies the device headers with the mistake in them.
func (m *Mutants) mutate(t *testing.T, x Mutant) string {
	t.Helper()
	dir := t.TempDir()
	names, err := filepath.Glob("../device/*.cuh")
	if err != nil || len(names) < 8 {
		t.Fatalf("%d headers, %v", len(names), err)
	}
	found := false
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, file := string(text), filepath.Base(name)
		if file == x.File {
			if found = strings.Count(s, x.Old) == 1; !found {
				t.Fatalf("%s has %q %d times: the mutant needs an update", name, x.Old, strings.Count(s, x.Old))
			}
			s = strings.Replace(s, x.Old, x.New, 1)
		}
		if m.Edit != nil {
			s = m.Edit(t, file, s)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("there is no %s: the mutant needs an update", x.File)
	}
	return dir
}

// concurrently runs n jobs, as many at a time as there are processors.
func concurrently(n int, f func(i int)) {
	var wait sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	wait.Wait()
}

// firstProblem is what of an error says most.
func firstProblem(err error) string {
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, "PROBLEM") || strings.Contains(line, "WARNING") || strings.Contains(line, "differ") {
			return strings.TrimSpace(line)
		}
	}
	return LastLine(err.Error())
}
