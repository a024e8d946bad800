package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tritier/tritier/copyeng/copyfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/internal/gpuinfo"
)

// withFakeGPU makes the commands of a test run on a software GPU, with their
// settings in a folder of the test's own. Leaks, and what a driver would not
// report, fail the test.
func withFakeGPU(t *testing.T, opts ...cudafake.Option) *cudafake.GPU {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := cudafake.New(opts...)
	t.Logf("fake GPU, seed %d", f.Seed())
	copyfake.Register(f)
	d, err := cuda.OpenBackend(f)
	if err != nil {
		t.Fatal(err)
	}
	open, link := openCUDA, pcieLink
	openCUDA = func() (*cuda.Driver, error) { return d, nil }
	pcieLink = func(context.Context, string) pcieState {
		return pcieState{Now: &gpuinfo.Link{Generation: 4, Width: 16}, Best: &gpuinfo.Link{Generation: 5, Width: 16}}
	}
	t.Cleanup(func() {
		openCUDA, pcieLink = open, link
		if v := f.Violations(); len(v) > 0 {
			t.Errorf("violations: %v", v)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if l := f.Leaks(); len(l) > 0 {
			t.Errorf("leaks: %v", l)
		}
	})
	return f
}

// withoutGPU makes opening the driver fail as err.
func withoutGPU(t *testing.T, err error) {
	t.Helper()
	open := openCUDA
	openCUDA = func() (*cuda.Driver, error) { return nil, err }
	t.Cleanup(func() { openCUDA = open })
}

// tritier runs one command line in this process.
func tritier(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// filesBelow lists the files of a folder.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, filesBelow(t, dir+"/"+e.Name())...)
		} else {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// wantLines checks that a text has each of these in it.
func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func TestPCIeStateText(t *testing.T) {
	four, five := &gpuinfo.Link{Generation: 4, Width: 16}, &gpuinfo.Link{Generation: 5, Width: 16}
	for _, c := range []struct {
		s    pcieState
		want string
	}{
		{pcieState{}, "PCIe link not known"},
		{pcieState{Best: five}, "PCIe up to Gen5 x16"},
		{pcieState{Now: five}, "PCIe Gen5 x16"},
		{pcieState{Now: five, Best: five}, "PCIe Gen5 x16"},
		{pcieState{Now: four, Best: five}, "PCIe Gen4 x16 (can be Gen5 x16)"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
