package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tritier/tritier/cuda"
)

// hasGPU says whether this machine has a GPU that tests may use.
func hasGPU() bool {
	d, err := cuda.Open()
	if err != nil {
		return false
	}
	_, err = d.Devices()
	return err == nil
}

// TestGPUScripts runs the commands that need a GPU: on a machine without one
// they say what is missing. REQUIRE=gpu makes that a failure.
func TestGPUScripts(t *testing.T) {
	gpu := hasGPU()
	if !gpu && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
		t.Fatal("no GPU, and REQUIRE asks for one")
	}
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/script/calibrate.txtar", "testdata/script/bench_copy.txtar", "testdata/script/bench_io.txtar"},
		Condition: func(c string) (bool, error) {
			return c == "gpu" && gpu, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "examples": checkExamples, "disk": makeDisk,
		},
	})
}
