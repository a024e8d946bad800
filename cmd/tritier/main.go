// Command tritier is about arrays that live in GPU memory, host memory and on
// NVMe drives at once. It runs programs over them (run), verifies what they are
// stored in (check), writes headers for kernels that use them (headers), says
// what a machine can do for them (doctor), measures copies between host and GPU
// (calibrate, bench copy), I/O that GPU threads or the CPU submit (bench io) and
// drives (nvme), replays access traces through the three tiers under any
// placement policy (replay), draws curves over size (mrc), searches for policies
// and sizes (tune), models machines (model), and makes, converts and describes
// traces (trace). See tritier --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailure     = 1   // bad input, or a result that could not be written
	exitInterrupted = 130 // ended by Ctrl-C, as shells report it
)

func main() {
	deferCollection()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interruption is the end of a command by Ctrl-C that says what was going on.
type interruption struct{ while string }

// Error gives one line.
func (i *interruption) Error() string { return "interrupted " + i.while }

// Unwrap makes it the end of a context.
func (i *interruption) Unwrap() error { return context.Canceled }

// run executes one command line and returns its exit status. The first Ctrl-C
// cancels the command's context; a second one ends the process at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	stop := context.AfterFunc(ctx, release)
	defer stop()
	checked := &checkedWriter{Writer: stdout}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(checked)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && checked.err != nil { // help texts do not look
		err = fmt.Errorf("standard output: %w", checked.err)
	}
	var cut *interruption
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.As(err, &cut):
		_, _ = fmt.Fprintln(stderr, "tritier: "+errorLine(err, args)) // nowhere else to report to
		return exitInterrupted
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "tritier: interrupted")
		return exitInterrupted
	}
	_, _ = fmt.Fprintln(stderr, "tritier: "+errorLine(err, args))
	return exitFailure
}
