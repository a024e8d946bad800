package main

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tritier/tritier/bamio/iobench/iobenchfake"
	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/tier/gpu/gpufake"
	"github.com/tritier/tritier/workload/kernels/kernelsfake"
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

// softwareGPU, when it is set, makes the commands of scripts run on a software GPU.
const softwareGPU = "TRITIER_TEST_SOFTWARE_GPU"

// scriptMain is the tritier of scripts.
func scriptMain() {
	if os.Getenv(softwareGPU) != "" {
		f := cudafake.New()
		copyfake.Register(f)
		iobenchfake.Register(f)
		gpufake.Register(f)
		kernelsfake.Register(f)
		openCUDA = sync.OnceValues(func() (*cuda.Driver, error) { return cuda.OpenBackend(f) })
	}
	main()
}

// TestGPUScripts runs the commands that need a GPU: on a machine without one
// they say what is missing. REQUIRE=gpu makes that a failure.
func TestGPUScripts(t *testing.T) {
	gpu := hasGPU()
	if !gpu && strings.Contains(os.Getenv("REQUIRE"), "gpu") {
		t.Fatal("no GPU, and REQUIRE asks for one")
	}
	gpuScripts(t, gpu, gpu, func(e *testscript.Env) error {
		for _, v := range driverVariables(os.Environ()) {
			name, value, _ := strings.Cut(v, "=")
			e.Setenv(name, value)
		}
		return nil
	})
}

// driverVariables are those of an environment by which the CUDA driver is found
// and chooses GPUs. Scripts have an environment of their own, without them.
func driverVariables(environment []string) (list []string) {
	for _, v := range environment {
		if strings.HasPrefix(v, "CUDA_") || strings.HasPrefix(v, "NVIDIA_") || strings.HasPrefix(v, "LD_LIBRARY_PATH=") {
			list = append(list, v)
		}
	}
	return list
}

func TestDriverVariables(t *testing.T) {
	got := driverVariables([]string{"HOME=/x", "LD_LIBRARY_PATH=/usr/lib64-nvidia", "CUDA_VISIBLE_DEVICES=1", "LD_PRELOAD=x", "NVIDIA_VISIBLE_DEVICES=all", "XCUDA_=1"})
	if want := []string{"LD_LIBRARY_PATH=/usr/lib64-nvidia", "CUDA_VISIBLE_DEVICES=1", "NVIDIA_VISIBLE_DEVICES=all"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGPUScriptsOverFake runs what the scripts do with a GPU over a software
// one: what they look for is there, whatever machine will run them next.
func TestGPUScriptsOverFake(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	gpuScripts(t, true, gpufake.Available && kernelsfake.Available, func(e *testscript.Env) error {
		e.Setenv(softwareGPU, "1")
		return nil
	})
}

func gpuScripts(t *testing.T, gpu, kernels bool, setup func(*testscript.Env) error) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Setup: setup,
		Files: []string{"testdata/script/calibrate.txtar", "testdata/script/bench_copy.txtar", "testdata/script/bench_io.txtar", "testdata/script/run_gpu.txtar"},
		Condition: func(c string) (bool, error) {
			return c == "gpu" && gpu || c == "kernels" && kernels, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refuses": refuses, "jsonhas": jsonHas, "examples": checkExamples, "disk": makeDisk, "timeline": checkTimeline, "awaitfile": awaitFile,
		},
	})
}
