package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestCheckScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/script/check.txtar"},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "examples": checkExamples, "disk": makeDisk, "damage": damageFile,
		},
	})
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
