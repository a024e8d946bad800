// Command tritier replays access traces through three memory tiers, and makes,
// converts and describes such traces. See tritier --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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

// run executes one command line and returns its exit status. The first Ctrl-C
// cancels the command's context; a second one ends the process at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	stop := context.AfterFunc(ctx, release)
	defer stop()
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "tritier: interrupted") // nowhere else to report to
		return exitInterrupted
	}
	_, _ = fmt.Fprintln(stderr, "tritier: "+oneLine(err))
	return exitFailure
}

// oneLine writes an error on one line, whatever text it quotes.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
