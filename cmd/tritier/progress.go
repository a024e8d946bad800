package main

import (
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"
)

const (
	progressDelay   = 500 * time.Millisecond // shorter runs show no bar
	progressPause   = 150 * time.Millisecond // nor do short parts of longer ones
	progressRefresh = 100 * time.Millisecond
)

// startProgress shows a bar with the time left on out, if out is a terminal,
// until the returned function is called; that may be done more than once. poll
// is called from another goroutine and says how much is done of how much;
// total is 0 when it is unknown. Nothing of the bar is set up before
// progressDelay, so a short run pays one goroutine at most. The bar leaves nothing behind.
func startProgress(out io.Writer, name string, poll func() (done, total int64)) (stop func()) {
	if !isTerminal(out) {
		return func() {}
	}
	return showProgress(out, name, poll, max(progressPause, progressDelay-time.Since(started)))
}

// started is when the program was: the parts of a run share the first delay.
var started = time.Now()

// unknownProgress is the poll of work that cannot be measured.
func unknownProgress() (done, total int64) { return 0, 0 }

// eraseLine clears what a terminal shows from the start of the line on. It
// echoes Ctrl-C as "^C" there, which moves the cursor, so that the bar's own
// clean-up starts too far to the right.
const eraseLine = "\r\x1b[J"

func showProgress(out io.Writer, name string, poll func() (done, total int64), delay time.Duration) (stop func()) {
	ended, gone := make(chan struct{}), make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(gone)
		select {
		case <-ended:
			return
		case <-time.After(delay):
		}
		bars := mpb.New(mpb.WithOutput(out), mpb.WithWidth(64), mpb.WithRefreshRate(progressRefresh), mpb.WithAutoRefresh())
		bar := newBar(bars, name, poll, begun)
		tick := time.NewTicker(progressRefresh)
		defer tick.Stop()
		for {
			done, total := poll()
			if total > 0 {
				// Never complete before the end: a complete bar takes no updates.
				bar.SetTotal(max(total, done+1), false)
			}
			bar.SetCurrent(done)
			select {
			case <-ended:
				bar.Abort(true)
				bars.Wait()
				_, _ = io.WriteString(out, eraseLine) // nowhere else to report to
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-gone
	})
}

// newBar makes a bar, or a spinner while no total is known.
func newBar(bars *mpb.Progress, name string, poll func() (done, total int64), begun time.Time) *mpb.Bar {
	if _, total := poll(); total <= 0 {
		return bars.AddSpinner(0, mpb.PrependDecorators(decor.Name(name+" ")),
			mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO)))
	}
	return bars.AddBar(0, mpb.PrependDecorators(decor.Name(name+" "), decor.Percentage()),
		mpb.AppendDecorators(decor.Name("ETA "), decor.NewAverageETA(decor.ET_STYLE_GO, begun, nil)))
}

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
