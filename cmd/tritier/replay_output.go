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
	if f.html != "" && f.plot != "" && filepath.Clean(f.html) == filepath.Clean(f.plot) {
		return nil, fmt.Errorf("--html and --plot both write %s: name two files", f.html)
	}
	if f.plot != "" {
		o.format = strings.TrimPrefix(strings.ToLower(filepath.Ext(f.plot)), ".")
		if !slices.Contains(report.Formats, o.format) {
			return nil, fmt.Errorf("--plot %s: the name must end in .%s", f.plot, strings.Join(report.Formats, " or ."))
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

// write writes everything; of an interrupted run only what goes to standard
// output. Files come first: a reader of a pipe may leave early.
func (o *replayOutput) write(r *report.Report) error {
	if !r.Interrupted {
		html, plot := o.html, o.plot
		if html != nil {
			o.html = nil
			if err := finish(html, r.HTML); err != nil {
				return err
			}
		}
		if plot != nil {
			o.plot = nil
			if err := finish(plot, func(w io.Writer) error { return r.Plot(w, o.format) }); err != nil {
				return err
			}
		}
	}
	b := bufio.NewWriter(o.stdout)
	write := r.Table
	switch {
	case o.json:
		write = r.JSON
	case o.csv:
		write = r.CSV
	}
	if err := write(b); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
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
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
