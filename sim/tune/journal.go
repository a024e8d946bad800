package tune

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"syscall"
)

// journalName and journalVersion stand at the start of every journal.
const (
	journalName    = "tritier tune"
	journalVersion = 2
)

// journalHead is a journal's first line.
type journalHead struct {
	Journal string   `json:"journal"`
	Version int      `json:"version"`
	Tasks   int      `json:"tasks"`  // version of the evaluation
	Traces  []string `json:"traces"` // hashes, sorted
}

// journalLine is every other line: an evaluated task.
type journalLine struct {
	Key     string  `json:"key"`
	Outcome Outcome `json:"outcome"`
	// Sum is over key and outcome: a changed digit would pass for another result.
	Sum uint32 `json:"sum"`
}

// sum is the checksum of a line (CRC-32C).
func (l *journalLine) sum() uint32 {
	raw, _ := json.Marshal(l.Outcome) // counts and finite shares: what was read, or checked by Outcome.check
	return crc32.Checksum(append([]byte(l.Key), raw...), crc32.MakeTable(crc32.Castagnoli))
}

// Journal is an Evaluator that remembers, in a file that only grows, what was
// evaluated, so that a run that was cut short can be resumed. It is not
// safe for concurrent use.
type Journal struct {
	inner Evaluator
	file  *os.File
	known map[string]Outcome
	// Resumed is how many evaluations the file had when it was opened.
	Resumed int
}

// JournalError is a file that cannot be used as a journal for these traces.
type JournalError struct{ Path, What string }

// Error names the file, what is wrong with it and what to do.
func (e *JournalError) Error() string { return e.Path + ": " + e.What }

// OpenJournal opens or makes the journal of a tuning of traces by their hashes;
// what is not in it, inner evaluates. A last line that was cut off is dropped;
// any other damage, another program's file, another version, other traces and what
// is no ordinary file are a *JournalError. Another process that has it open is an error, too.
func OpenJournal(path string, traces []string, inner Evaluator) (*Journal, error) {
	// Opening or reading a pipe would wait for whoever writes it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &JournalError{path, "a folder, pipe or device, and a journal is an ordinary file: name another one"}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{inner: inner, file: f, known: map[string]Outcome{}}
	if err := j.open(path, traces); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j.Resumed = len(j.known)
	return j, nil
}

func (j *Journal) open(path string, traces []string) error {
	if err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return &JournalError{path, "another run is writing it (" + err.Error() + "): wait for it, or name another file"}
	}
	traces = slices.Sorted(slices.Values(traces))
	head := journalHead{journalName, journalVersion, taskVersion, traces}
	good, err := j.read(path, head)
	if err != nil {
		return err
	}
	if err := j.file.Truncate(good); err != nil {
		return err
	}
	if _, err := j.file.Seek(good, io.SeekStart); err != nil {
		return err
	}
	if good == 0 {
		return j.write(head)
	}
	return nil
}

// read reads what is there and returns how many bytes of it are whole lines.
func (j *Journal) read(path string, want journalHead) (good int64, err error) {
	r := bufio.NewReader(j.file)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			// Cut off by a crash. But a file that only starts like this was never ours.
			if n == 1 && !bytes.HasPrefix([]byte(`{"journal":"`+journalName), line[:min(len(line), 12+len(journalName))]) {
				return 0, &JournalError{path, "this is no journal of tritier tune: name another file"}
			}
			return good, nil
		}
		if err != nil {
			return 0, err
		}
		if n == 1 {
			err = checkHead(path, line, want)
		} else {
			err = j.take(path, n, line)
		}
		if err != nil {
			return 0, err
		}
		good += int64(len(line))
	}
}

func checkHead(path string, line []byte, want journalHead) error {
	var got journalHead
	if err := json.Unmarshal(line, &got); err != nil || got.Journal != journalName {
		return &JournalError{path, "this is no journal of tritier tune: name another file"}
	}
	if got.Version != want.Version || got.Tasks != want.Tasks {
		return &JournalError{path, fmt.Sprintf("a journal of version %d.%d, this program writes version %d.%d: name another file",
			got.Version, got.Tasks, want.Version, want.Tasks)}
	}
	if !slices.Equal(got.Traces, want.Traces) {
		return &JournalError{path, "a journal of other traces, or of these with another page size or order: name another file"}
	}
	return nil
}

func (j *Journal) take(path string, n int, line []byte) error {
	var l journalLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil || l.Key == "" || l.Sum != l.sum() {
		return &JournalError{path, fmt.Sprintf("line %d is damaged: delete it, or name another file", n)}
	}
	j.known[l.Key] = l.Outcome
	return nil
}

func (j *Journal) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n')) // one write: it is there whole, or cut off at the end
	return err
}

// Evaluate hands on what the journal knows and has the rest evaluated, each
// outcome being in the file before it is handed on.
func (j *Journal) Evaluate(ctx context.Context, tasks []Task, done func(i int, o Outcome)) error {
	var rest []Task
	var index []int
	for i := range tasks {
		if o, ok := j.known[tasks[i].Key()]; ok {
			done(i, o)
			continue
		}
		rest, index = append(rest, tasks[i]), append(index, i)
	}
	if len(rest) == 0 {
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	err := j.inner.Evaluate(ctx, rest, func(i int, o Outcome) {
		key := rest[i].Key()
		j.known[key] = o
		line := journalLine{Key: key, Outcome: o}
		line.Sum = line.sum()
		if err := j.write(line); err != nil && failed == nil {
			failed = fmt.Errorf("tune: journal: %w", err)
			cancel()
		}
		done(index[i], o)
	})
	if failed != nil {
		return failed
	}
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return errors.Join(j.file.Sync(), j.file.Close()) }
