package bamio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// StallError says that GPU-initiated I/O makes no progress, or that kernels do
// not end although they were asked to. Its %+v has the dump.
type StallError struct {
	Queues []string      // those that are stuck
	After  time.Duration // how long nothing had moved
	Ended  bool          // the kernels ended within the grace
	Cause  error         // what led to the stop, if it was no stuck queue
	Dump   string        // the queues of both sides, in words
}

func (e *StallError) Error() string {
	var s string
	switch {
	case len(e.Queues) > 0:
		s = fmt.Sprintf("bamio: I/O stalled: %s made no progress for %v with commands in flight", strings.Join(shorten(e.Queues), ", "), e.After)
	case e.Cause != nil:
		s = fmt.Sprintf("bamio: I/O stalled: %v", e.Cause)
	default:
		s = "bamio: I/O stalled"
	}
	if e.Ended {
		return s + "; the kernels ended when they were asked to (print the error with %+v for the queues' state)"
	}
	return s + "; the kernels did not end when they were asked to, and only the end of the process may stop them (print the error with %+v for the queues' state)"
}

func (e *StallError) Unwrap() error { return e.Cause }

// Timeout makes the error recognisable as a time-out, as package net does.
func (e *StallError) Timeout() bool { return true }

// Format prints the dump for %+v.
func (e *StallError) Format(s fmt.State, verb rune) {
	text := e.Error()
	if verb == 'v' && s.Flag('+') {
		text += "\n" + e.Dump
	}
	if verb == 'q' {
		text = fmt.Sprintf("%q", text)
	}
	_, _ = io.WriteString(s, text)
}

// shorten keeps an error readable when all of many queues are stuck.
func shorten(names []string) []string {
	const most = 4
	if len(names) <= most {
		return names
	}
	return append(names[:most:most], fmt.Sprintf("and %d more", len(names)-most))
}

func (e *Engine) names(queues []int) []string {
	var out []string
	for _, i := range queues {
		out = append(out, fmt.Sprintf("queue %d of %s", e.queues[i].at.ID, e.drives[e.queues[i].drive].name))
	}
	return out
}

// Dump writes the state of all queues in words, as the GPU, the rings and the
// controllers have it. It works while kernels run, and without the GPU's part
// when the GPU does not answer.
func (e *Engine) Dump(ctx context.Context, w io.Writer) error {
	if err := e.life.begin(); err != nil {
		return err
	}
	defer e.life.end()
	s, err := e.snapshot(ctx, e.opts.Grace)
	if err != nil {
		if _, err := fmt.Fprintf(w, "GPU memory cannot be read: %v\n", err); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, e.dumpText(s))
	return err
}

func (e *Engine) dumpText(s *snapshot) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "path: %s\n", e.path)
	fmt.Fprintf(&b, "stop flag %d, deadline %v, %d payload buffers of %d bytes\n",
		load32(e.control.Bytes(), stopAt), e.opts.Deadline, e.payload.count, e.payload.buffer)
	if s == nil {
		b.WriteString("no copy of GPU memory could be had\n")
	} else {
		r := e.served.stats()
		fmt.Fprintf(&b, "requests: %d sent, %d retired by the GPU; %d answered, %d of them failed\n", s.ring.Tail, s.ring.Head, r.Requests, r.Failed)
	}
	for i := range e.queues {
		e.dumpQueue(&b, s, i)
	}
	for _, c := range e.controllerStats() {
		if c.Known {
			fmt.Fprintf(&b, "software controller of %s: %d commands, %d errors, %d reads, %d writes, doorbells outside the queue %d, backward %d\n",
				c.Name, c.Commands, c.Errors, c.Reads, c.Writes, c.DoorbellRange, c.DoorbellBackward)
		}
	}
	for _, p := range e.ports {
		fmt.Fprintf(&b, "%s: ", p.name)
		_ = p.ctrl.Dump(&b) // a buffer takes everything
	}
	return b.String()
}
