package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/iobench"
)

// dumpDocument is what --dump writes, and may replace.
var dumpDocument = document{[]string{".txt", ".log"}, []string{dumpHead}}

const dumpHead = "state of the queues" // of the file, in lower case for document

// ioDump keeps the queues' state when something has gone wrong. Without a name
// it keeps nothing.
type ioDump struct {
	name    string
	out     *output
	written bool
}

// openDump creates the file before the measurement, so that a wrong name is
// found at once.
func openDump(name string, stderr io.Writer) (*ioDump, error) {
	d := &ioDump{name: name}
	if name == "" {
		return d, nil
	}
	if name != "-" {
		if err := dumpDocument.check(name); err != nil {
			return nil, fmt.Errorf("--dump %w", err)
		}
	}
	var err error
	if d.out, err = createOutput(name, stderr); err != nil {
		return nil, fmt.Errorf("--dump: %w", err)
	}
	return d, nil
}

// close puts the file in place if there is anything in it.
func (d *ioDump) close() error {
	switch {
	case d.out == nil:
		return nil
	case !d.written:
		return d.out.discard()
	}
	if err := d.out.commit(); err != nil {
		return fmt.Errorf("--dump: %w", err)
	}
	return nil
}

// dumpTime bounds the looking at queues of a GPU that may have stopped to answer.
const dumpTime = 10 * time.Second

// keep writes the state: as it was when I/O stalled, otherwise as it is now. It
// gives the end of a sentence that says where it is.
func (d *ioDump) keep(e *bamio.Engine, stall *bamio.StallError) string {
	if d.out == nil {
		return "; --dump FILE keeps the queues' state"
	}
	text := ""
	if stall != nil {
		text = stall.Dump
	}
	if text == "" {
		ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
		defer cancel()
		var b strings.Builder
		if err := e.Dump(ctx, &b); err != nil {
			return "; the queues' state cannot be had: " + err.Error()
		}
		text = b.String()
	}
	d.written = true
	_, _ = fmt.Fprintf(d.out, "%s at %s\n%s", dumpHead, time.Now().UTC().Format(time.RFC3339), text) // close reports errors
	if d.name == "-" {
		return ""
	}
	return "; the queues' state is in " + d.name
}

// ioError is an error of the load in words for people.
type ioError struct {
	text string
	err  error
}

func (e *ioError) Error() string { return e.text }

func (e *ioError) Unwrap() error { return e.err }

// broken explains an error that ended a job, and keeps the queues' state where
// that tells more.
func (s *ioGPU) broken(err error) error {
	var stall *bamio.StallError
	var lost *bamio.DriveError
	switch {
	case errors.As(err, &stall):
		s.left = s.left || !stall.Ended
		if stall.Ended && errors.Is(err, context.Canceled) && len(stall.Queues) == 0 {
			return err // Ctrl-C
		}
		return &ioError{stallText(stall) + s.dump.keep(s.engine, stall), err}
	case errors.As(err, &lost):
		return &ioError{fmt.Sprintf("%s failed while the GPU used it: %v", lost.Drive, lost.Err) + s.dump.keep(s.engine, nil), err}
	}
	return err
}

// stallText is a stall without what only programs can do about it.
func stallText(e *bamio.StallError) string {
	text := "I/O stalled"
	switch {
	case len(e.Queues) > 0:
		names := e.Queues
		if len(names) > 4 {
			names = append(names[:4:4], fmt.Sprintf("%d more", len(names)-4))
		}
		text += fmt.Sprintf(": %s made no progress for %v with commands in flight", strings.Join(names, ", "), e.After)
	case e.Cause != nil:
		text += ": " + e.Cause.Error()
	}
	if e.Ended {
		return text + "; the GPU's threads ended when they were asked to"
	}
	return text + "; the GPU's threads did not end when they were asked to, and what they use stays until this program has ended"
}

// failed is the error of commands that nobody had asked to fail.
func (s *ioGPU) failed(ctx context.Context, r *ioRow, res *iobench.Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text := fmt.Sprintf("%s of %s by %d GPU threads: %d of %d I/Os failed, the first: %v", r.op, shortBytes(r.size), r.threads(), res.Errors, res.Errors+res.Reads+res.Writes, res.FirstStatus)
	if len(res.Statuses) > 1 {
		only := &ioRow{}
		only.failAll(res)
		text += " (in all " + counts(only.errors) + ")"
	}
	for _, d := range s.cpu.drives {
		if host := d.HostError(); host != nil {
			text += fmt.Sprintf("; the host says of %s: %v", d.URI, host)
		}
	}
	return &ioError{text + s.dump.keep(s.engine, nil), res.FirstStatus.Err()}
}

// explain adds what the host says to an error of a drive that is a file.
func (b *ioBench) explain(err error) error { return b.cpu.explain(err) }
