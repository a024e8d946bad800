package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tritier/tritier/sim/report"
)

// replayOutput holds the places that results go to. Files are created before
// the run, so that a wrong name is found at once, and appear complete or not
// at all.
type replayOutput struct {
	stdout     io.Writer
	json, csv  bool
	html, plot *output // nil when not asked for
	format     string  // of the plot
}

func openReplayOutput(f *replayFlags, stdout io.Writer) (*replayOutput, error) {
	o := &replayOutput{stdout: stdout, json: f.json, csv: f.csv}
	if f.html == "-" || f.plot == "-" {
		return nil, errors.New("--html and --plot write files: name one; standard output has the results")
	}
	if f.html != "" && f.plot != "" && sameFile(f.html, f.plot) {
		return nil, fmt.Errorf("--html and --plot both write %s: name two files", f.html)
	}
	if f.html != "" {
		if err := htmlDocument.check(f.html); err != nil {
			return nil, fmt.Errorf("--html %w", err)
		}
	}
	if f.plot != "" {
		if err := plotDocument.check(f.plot); err != nil {
			return nil, fmt.Errorf("--plot %w", err)
		}
		o.format = report.Formats[0] // to a device or a pipe, whatever its name
		if ext := strings.TrimPrefix(strings.ToLower(filepath.Ext(f.plot)), "."); slices.Contains(report.Formats, ext) {
			o.format = ext
		}
	}
	var err error
	if f.html != "" {
		if o.html, err = createOutput(f.html, nil); err != nil {
			return nil, fmt.Errorf("--html: %w", err)
		}
	}
	if f.plot != "" {
		if o.plot, err = createOutput(f.plot, nil); err != nil {
			o.discard()
			return nil, fmt.Errorf("--plot: %w", err)
		}
	}
	return o, nil
}

// discard drops the files that write has not finished.
func (o *replayOutput) discard() {
	for _, f := range []*output{o.html, o.plot} {
		if f != nil {
			_ = f.discard() // what failed before it is what the user hears of
		}
	}
	o.html, o.plot = nil, nil
}

// write writes what goes to standard output and, if files is set, the files.
// These come first, since a reader of a pipe may leave early, but one that
// cannot be written does not keep the results back.
func (o *replayOutput) write(r *report.Report, files bool) error {
	var failures []error
	if html := o.html; files && html != nil {
		o.html = nil
		failures = append(failures, finish(html, r.HTML))
	}
	if plot := o.plot; files && plot != nil {
		o.plot = nil
		failures = append(failures, finish(plot, func(w io.Writer) error { return r.Plot(w, o.format) }))
	}
	b := bufio.NewWriter(o.stdout)
	write := r.Table
	switch {
	case o.json:
		write = r.JSON
	case o.csv:
		write = r.CSV
	}
	if err := errors.Join(write(b), b.Flush()); err != nil {
		failures = append(failures, fmt.Errorf("standard output: %w", firstOf(err)))
	}
	return errors.Join(failures...)
}

// firstOf is the first of joined errors: a buffer repeats its writer's.
func firstOf(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

// sameFile says whether two names are of one file, which may not exist yet.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}

// finish writes a file and gives it its name.
func finish(f *output, write func(w io.Writer) error) error {
	if err := write(f); err != nil {
		return errors.Join(err, f.discard())
	}
	return f.commit()
}

// commandLine is the command as a shell takes it.
func commandLine() string {
	words := []string{"tritier"}
	for _, a := range os.Args[1:] {
		words = append(words, shellQuote(a))
	}
	return strings.Join(words, " ")
}

// plain are the characters that no shell interprets.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	if printed := report.Printable(s); printed != s {
		return "$'" + strings.ReplaceAll(strings.ReplaceAll(printed[1:len(printed)-1], `\"`, `"`), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
