package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestCheckScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/script/check.txtar"},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "examples": checkExamples, "disk": makeDisk, "damage": damageFile, "wreck": wreckFile,
		},
	})
}

// wreckFile changes a byte at each place named: FILE OFFSET...
func wreckFile(ts *testscript.TestScript, _ bool, args []string) {
	for i := 0; i+1 < len(args); i += 2 {
		name := ts.MkAbs(args[i])
		at, err := strconv.Atoi(args[i+1])
		ts.Check(err)
		b, err := os.ReadFile(name)
		ts.Check(err)
		b[at] ^= 4
		ts.Check(os.WriteFile(name, b, 0o600))
	}
}

// damageFile changes a byte near the end of what a file holds, where pages are and no
// tables: FILE.
func damageFile(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	at := len(b) - 1
	for at > 0 && b[at] == 0 {
		at--
	}
	b[at] ^= 4
	ts.Check(os.WriteFile(name, b, 0o600))
}
