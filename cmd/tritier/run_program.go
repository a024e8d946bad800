package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/workload"
)

// Forms of a program.
const (
	programKernel = "kernel" // kernels of the GPU that use the arrays themselves
	programBatch  = "batch"  // the batch calls of the Go API
)

// form is the form of the program: kernels where they can be.
func (f *runFlags) form() string {
	switch {
	case f.program != "":
		return f.program
	case f.engine == lib.EngineGPU:
		return programKernel
	}
	return programBatch
}

// checkForm reports flags that the form of the program has no use for.
func (f *runFlags) checkForm() error {
	kernels := f.form() == programKernel
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{kernels || f.form() == programBatch, fmt.Sprintf("--program %s: want %s or %s", f.program, programKernel, programBatch)},
		{!kernels || f.engine == lib.EngineGPU, "--program kernel needs --engine gpu: kernels use arrays only where they decide themselves"},
		{!kernels || !f.prefetch, "--prefetch is of the batch form, which knows its next batch: give --program batch too"},
		{!kernels || !f.wasGiven("batch"), "--batch is of the batch form: give --program batch too, or leave it out"},
	} {
		if !x.ok {
			return errors.New(x.what)
		}
	}
	return nil
}

// checkZeroes reports flags whose zero would be the default: it says what to give instead.
func (f *runFlags) checkZeroes() error {
	for _, x := range []struct {
		name string
		zero bool
		give string
	}{
		{"size", f.size == 0, "the size of all arrays together, such as 64MiB"},
		{"scale", f.scale == 0, fmt.Sprintf("1 to %d", workload.MaxScale)},
		{"iterations", f.iterations == 0, "1 or more"},
		{"page", f.page == 0, "a power of two from 4KiB to 2MiB"},
	} {
		if x.zero && f.wasGiven(x.name) {
			return fmt.Errorf("--%s 0: give %s, or leave it out", x.name, x.give)
		}
	}
	return nil
}

// wasGiven says whether a flag was on the command line.
func (f *runFlags) wasGiven(name string) bool { return f.given != nil && f.given(name) }

// prepared is a workload in one of its forms, ready to run.
type prepared struct {
	run  func(ctx context.Context) error
	span func() time.Duration // of kernels, by the GPU's events
	end  func() error
}

// prepare makes the workload ready. Kernels are compiled here: that is no part of a run.
func (r *runner) prepare(mem *lib.Memory, w workload.Workload) (*prepared, error) {
	if r.f.form() == programBatch {
		return &prepared{run: func(ctx context.Context) error { return w.Run(ctx, mem) }, span: func() time.Duration { return 0 }, end: func() error { return nil }}, nil
	}
	s, err := mem.GPU().NewStream()
	if err != nil {
		return nil, err
	}
	d, err := workload.NewDevice(mem, s, w.Name())
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &prepared{run: func(ctx context.Context) error { return w.RunKernels(ctx, d) }, span: d.Span,
		end: func() error { return errors.Join(d.Close(), s.Close()) }}, nil
}

// formText says in a sentence what ran.
func (x *runOnce) formText() string {
	if x.form == programKernel {
		return "program: kernels of the GPU that use the arrays themselves"
	}
	return "program: batches of the Go API; the arithmetic runs on the CPU"
}
