package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tritier/tritier/bamio"
	"github.com/tritier/tritier/bamio/bamiofake"
	"github.com/tritier/tritier/bamio/iobench"
	"github.com/tritier/tritier/bamio/iobench/iobenchfake"
	"github.com/tritier/tritier/cuda"
	"github.com/tritier/tritier/cuda/cudafake"
	"github.com/tritier/tritier/libnvm/drive"
)

// Where run_load's parameters are that the tests look at.
const (
	loadSeedAt  = 56
	loadShareAt = 80
)

// ioArgs are a short run of one row.
func ioArgs(more ...string) []string {
	return append([]string{"bench", "io", "mem:1MiB", "--size", "4KiB", "--warps", "2", "--lanes", "8", "--queues", "2", "--ios", "200", "--runs", "2"}, more...)
}

// A wrong byte that a drive gives fails the run, whoever reads it.
func TestBenchIOWrongByte(t *testing.T) {
	withIOGPU(t)
	for _, who := range []string{"gpu", "cpu"} {
		for _, op := range []string{"read", "mixed"} {
			out, _, err := tritier(t.Context(), ioArgs("--initiator", who, "--op", op, "--faults", "corrupt=0.1", "--json")...)
			if err == nil || !strings.HasPrefix(err.Error(), "verification failed: "+op+" by the "+strings.ToUpper(who)+", random 4KiB: ") {
				t.Errorf("%s by the %s: %v", op, who, err)
			}
			doc := decodeIO(t, out)
			if doc.Verified || doc.Faults["corrupt"] == 0 || len(doc.Rows) != 1 || doc.Rows[0].Verified || doc.Rows[0].Wrong == 0 || doc.Rows[0].Mismatch == "" {
				t.Errorf("%s by the %s: %s", op, who, out)
			}
		}
	}
}

// Writes that land elsewhere are noticed, although the block that they should
// have gone to holds what was written there before.
func TestBenchIOLostWrites(t *testing.T) {
	f := withIOGPU(t)
	for _, op := range []string{"write", "mixed"} {
		share := map[string]uint32{"write": 0, "mixed": 179}[op] // 70 % of 256
		f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
			if l.U32(loadShareAt) == share && l.U64(loadSeedAt) != 0 { // not the filling
				if op == "mixed" { // what it writes there is of another place
					defer damage(t, l)
				} else {
					binary.LittleEndian.PutUint64(l.Params[loadSeedAt:], l.U64(loadSeedAt)+1<<40)
				}
			}
			return iobenchfake.RunLoad(l)
		})
		// Reads come first, so that the area holds what they expect.
		out, _, err := tritier(t.Context(), ioArgs("--op", "read,"+op)...)
		if err == nil || !strings.Contains(err.Error(), "verification failed: "+op+" by the GPU, random 4KiB: ") || !strings.Contains(err.Error(), "hold something else, near block ") {
			t.Errorf("%s: %v", op, err)
		}
		wantLines(t, out, "verified: WRONG DATA among ")
	}
}

// damage overwrites the last block of the drive by a command of its own.
func damage(t *testing.T, l *cudafake.Launch) {
	d, err := bamiofake.Open(l, l.U64(0))
	if err != nil {
		t.Error(err)
		return
	}
	clear(d.Buffer(0))
	if st := d.Transfer(0, bamiofake.Write, bamiofake.Span{LBA: d.Drives[0].Blocks - 1, Blocks: 1}); st != 0 {
		t.Error(bamio.Status(st))
	}
}

// Errors that were asked for are counted by status, and spoil nothing else.
func TestBenchIOErrors(t *testing.T) {
	withIOGPU(t)
	out, _, err := tritier(t.Context(), ioArgs("--op", "read,write,mixed", "--faults", "error=0.05", "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	doc := decodeIO(t, out)
	seen := uint64(0)
	for _, x := range doc.Rows {
		if x.Wrong != 0 || x.IOs == 0 || x.Op != "write" && !x.Verified {
			t.Errorf("%+v", x)
		}
		for kind, n := range x.Errors {
			seen += n
			if kind != "Unrecovered Read Error" && kind != "Write Fault" {
				t.Errorf("%d of %s", n, kind)
			}
		}
	}
	if len(doc.Rows) != 3 || seen == 0 || seen != doc.Faults["error"] {
		t.Errorf("%d errors seen of %v: %s", seen, doc.Faults, out)
	}
	if out, _, err = tritier(t.Context(), ioArgs("--faults", "error=0.05")...); err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "faults injected: ", " Unrecovered Read Error\n", "verified: every byte; ")
}

// GPU threads' errors of several kinds in one run are each counted as what they are.
func TestBenchIOErrorsByStatus(t *testing.T) {
	withIOGPU(t)
	out, _, err := tritier(t.Context(), ioArgs("--op", "mixed", "--faults", "error=0.1,drop=0.02", "--timeout", "4s", "--runs", "1", "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	doc := decodeIO(t, out)
	lost := doc.Rows[0].Errors[bamio.Timeout.String()]
	answered := doc.Rows[0].Errors["Unrecovered Read Error"] + doc.Rows[0].Errors["Write Fault"]
	// A command that both hit is lost: nobody sees its status.
	if lost == 0 || lost != doc.Faults["drop"] || answered > doc.Faults["error"] || answered+lost < doc.Faults["error"] {
		t.Errorf("%v of %v", doc.Rows[0].Errors, doc.Faults)
	}
	if doc.Rows[0].Errors["Unrecovered Read Error"] == 0 || doc.Rows[0].Errors["Write Fault"] == 0 {
		t.Errorf("one kind alone: %v", doc.Rows[0].Errors)
	}
}

// Errors that end a run are told by status too.
func TestBenchIOFailedText(t *testing.T) {
	s := &ioGPU{ioBench: &ioBench{dump: &ioDump{}, cpu: &bench{}}}
	res := &iobench.Result{Reads: 90, Errors: 10, FirstStatus: bamio.Timeout, Statuses: map[bamio.Status]uint64{bamio.Timeout: 3, 0x281: 5}, OtherErrors: 2}
	err := s.failed(t.Context(), &ioRow{ioCell: ioCell{op: opRead, size: 4096, warps: 1}}, res)
	want := "read of 4KiB by 32 GPU threads: 10 of 100 I/Os failed, the first: no completion within the deadline (in all 5 Unrecovered Read Error, 3 no completion within the deadline, 2 other statuses); --dump"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Data of the wrong drive, at the right block, fails the run.
func TestBenchIOWrongDrive(t *testing.T) {
	f := withIOGPU(t)
	f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
		if l.U32(loadShareAt) != 0 { // reads go to the other drive's queues
			d, err := bamiofake.Open(l, l.U64(0))
			if err != nil {
				return err
			}
			first, second := &d.Drives[0].FirstQueue, &d.Drives[1].FirstQueue
			*first, *second = *second, *first
			defer func() { *first, *second = *second, *first }()
		}
		return iobenchfake.RunLoad(l)
	})
	out, _, err := tritier(t.Context(), "bench", "io", "mem:1MiB,mem:1MiB", "--size", "4KiB", "--warps", "2", "--lanes", "8", "--queues", "2", "--ios", "200", "--runs", "1", "--json")
	if err == nil || !strings.HasPrefix(err.Error(), "verification failed: read by the GPU, random 4KiB: ") {
		t.Error(err)
	}
	if doc := decodeIO(t, out); doc.Verified || doc.Rows[0].Wrong != doc.Rows[0].IOs*4096/16 {
		t.Errorf("%s", out)
	}
}

// I/O that nobody completes ends at its deadline: one line, and the state
// of the queues where it was asked for.
func TestBenchIOTimeout(t *testing.T) {
	withIOGPU(t)
	dump := filepath.Join(t.TempDir(), "queues.txt")
	args := []string{"bench", "io", "mem:1MiB", "--size", "4KiB", "--warps", "1", "--lanes", "2", "--queues", "1", "--seconds", "0.05", "--runs", "1", "--faults", "drop=1", "--timeout", "500ms"}
	begun := time.Now()
	out, _, err := tritier(t.Context(), append(args, "--dump", dump)...)
	var status *bamio.StatusError
	if !errors.As(err, &status) || status.Status != bamio.Timeout || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, output %q", err, out)
	} else {
		wantLines(t, out, "errors seen: 8 no completion within the deadline\n", "ended early: 0 of 1 row are known\n")
		wantLines(t, err.Error(), "read of 4KiB by 32 GPU threads: ", " I/Os failed, the first: no completion within the deadline; the queues' state is in "+dump)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	text, err := os.ReadFile(dump)
	if err != nil || !bytes.HasPrefix(text, []byte(dumpHead+" at ")) || !bytes.Contains(text, []byte("mem:1MiB")) {
		t.Errorf("%v, %.300s", err, text)
	}
	// It may be replaced by another, and is not there when nothing went wrong.
	if _, _, err := tritier(t.Context(), append(args, "--dump", dump)...); err == nil {
		t.Error("no error")
	}
	other := filepath.Join(filepath.Dir(dump), "other.log")
	if _, _, err := tritier(t.Context(), ioArgs("--dump", other)...); err != nil {
		t.Error(err)
	}
	if names := filesBelow(t, filepath.Dir(dump)); len(names) != 1 {
		t.Errorf("files %v", names)
	}
}

// hang is run_load that sends a command, which the drive drops, and then waits
// for the host's stop only; filling works.
func hang(l *cudafake.Launch) error {
	if l.U32(loadShareAt) == 0 {
		return iobenchfake.RunLoad(l)
	}
	d, err := bamiofake.Open(l, l.U64(0))
	if err != nil {
		return err
	}
	if _, st := d.Start(0, bamiofake.Read, bamiofake.Span{Blocks: 1}); st != 0 {
		return bamio.Status(st).Err()
	}
	for !d.Stopped() {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// GPU threads that hang are asked to end, and the error says which queue hung.
func TestBenchIOStall(t *testing.T) {
	f := withIOGPU(t)
	f.RegisterKernel("run_load", hang)
	out, errs, err := tritier(t.Context(), ioArgs("--faults", "drop=1", "--timeout", "500ms", "--dump", "-")...)
	var stall *bamio.StallError
	if !errors.As(err, &stall) || !stall.Ended || out != "" {
		t.Fatalf("%v, output %q", err, out)
	}
	if want := "I/O stalled: queue 1 of mem:1MiB made no progress for 2.5s with commands in flight; the GPU's threads ended when they were asked to"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	wantLines(t, errs, dumpHead+" at ", "\npath: queues in ", "queue 1")
	if _, _, err = tritier(t.Context(), ioArgs("--faults", "drop=1", "--timeout", "500ms")...); err == nil || !strings.HasSuffix(err.Error(), "; --dump FILE keeps the queues' state") {
		t.Error(err)
	}
}

// What GPU threads use that do not end is left to the end of the process: giving
// it back would wait for them, or pull it away under them.
func TestBenchIOEndlessKernel(t *testing.T) {
	f := cudafake.New()
	iobenchfake.Register(f)
	var launched atomic.Bool
	f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
		if l.U32(loadShareAt) == 0 {
			return iobenchfake.RunLoad(l)
		}
		launched.Store(true)
		if err := hangFor(l); err != nil {
			return err
		}
		<-l.Done()
		return nil
	})
	d, err := cuda.OpenBackend(f)
	if err != nil {
		t.Fatal(err)
	}
	open := openCUDA
	openCUDA = func() (*cuda.Driver, error) { return d, nil }
	t.Cleanup(func() { openCUDA = open })
	cmd, flags := ioCommand(t, ioArgs("--faults", "drop=1", "--timeout", "500ms")[3:]...)
	set, err := flags.settings(cmd, "mem:1MiB")
	if err != nil {
		t.Fatal(err)
	}
	x := &ioBench{ioSettings: set, stderr: io.Discard, dump: &ioDump{}, report: newIOReport(set)}
	done := make(chan error, 1)
	go func() { done <- x.measure(t.Context()) }()
	select {
	case err := <-done:
		var stall *bamio.StallError
		if !errors.As(err, &stall) || stall.Ended || !launched.Load() || !strings.Contains(err.Error(), "the GPU's threads did not end when they were asked to") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still running")
	}
	if len(f.Leaks()) == 0 {
		t.Error("memory was given back under a kernel that runs")
	}
	// What the end of the process would do.
	if err := errors.Join(f.Close(), drive.CloseAll(x.cpu.drives)); err != nil {
		t.Error(err)
	}
}

// hangFor sends a command that nobody waits for.
func hangFor(l *cudafake.Launch) error {
	d, err := bamiofake.Open(l, l.U64(0))
	if err != nil {
		return err
	}
	_, st := d.Start(0, bamiofake.Read, bamiofake.Span{Blocks: 1})
	return bamio.Status(st).Err()
}

// Ctrl-C ends with the rows that are known, and nothing is left running.
func TestBenchIOInterrupted(t *testing.T) {
	f := withIOGPU(t)
	dir := t.TempDir()
	var loads atomic.Int64
	f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
		if loads.Add(1) > 5 { // the filling, and the runs of the first row
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			return hang(l)
		}
		return iobenchfake.RunLoad(l)
	})
	var out, errs bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run(ioArgs("--warps", "1..8", "--runs", "4", "--json", "--plot", dir+"/x.svg", "--dump", dir+"/x.txt"), nil, &out, &errs)
	}()
	select {
	case s := <-status:
		if s != exitInterrupted || errs.String() != "tritier: interrupted\n" {
			t.Errorf("status %d, %q", s, errs.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("still running a minute after Ctrl-C")
	}
	if doc := decodeIO(t, out.String()); !doc.Interrupted || doc.Complete || len(doc.Rows) != 1 || !doc.Verified {
		t.Errorf("%d rows, interrupted %v", len(doc.Rows), doc.Interrupted)
	}
	if n := filesBelow(t, dir); len(n) != 0 {
		t.Errorf("left behind: %v", n)
	}
}

// Ctrl-C before the first run has ended, while drives are filled or while the
// length of a run is being found, says so alone.
func TestBenchIOInterruptedEarly(t *testing.T) {
	f := withIOGPU(t)
	for _, c := range []struct {
		when   int64 // at which start of the load
		format string
	}{{1, "--json=false"}, {1, "--json"}, {2, "--json"}, {2, "--json=false"}} {
		dir := t.TempDir()
		var loads atomic.Int64
		f.RegisterKernel("run_load", func(l *cudafake.Launch) error {
			if loads.Add(1) == c.when {
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					return err
				}
				return untilStopped(l)
			}
			return iobenchfake.RunLoad(l)
		})
		var out, errs bytes.Buffer
		status := make(chan int, 1)
		go func() {
			status <- run([]string{"bench", "io", "mem:1MiB", "--size", "4KiB", "--warps", "2", "--lanes", "8", "--queues", "2", "--seconds", "0.05",
				"--runs", "2", c.format, "--plot", dir + "/x.svg", "--dump", dir + "/x.txt"}, nil, &out, &errs)
		}()
		select {
		case s := <-status:
			if s != exitInterrupted || errs.String() != "tritier: interrupted\n" || out.String() != "" {
				t.Errorf("%+v: status %d, %q, output %q", c, s, errs.String(), out.String())
			}
		case <-time.After(time.Minute):
			t.Fatal("still running a minute after Ctrl-C")
		}
		if n := filesBelow(t, dir); len(n) != 0 {
			t.Errorf("left behind: %v", n)
		}
	}
}

// untilStopped is a load that does nothing until the host asks it to end.
func untilStopped(l *cudafake.Launch) error {
	d, err := bamiofake.Open(l, l.U64(0))
	if err != nil {
		return err
	}
	for !d.Stopped() {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// A GPU that is lost is an error that says so, and a mailbox that nobody answers
// in time costs only its line.
func TestBenchIOGPUTrouble(t *testing.T) {
	f := withIOGPU(t)
	f.RegisterKernel("mailbox", func(*cudafake.Launch) error { return nil })
	out, _, err := tritier(t.Context(), ioArgs()...)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out, "mailbox, GPU to CPU and back: not measured: ", "verified: every byte")
	f.FailAsync(cuda.IllegalAddress)
	_, _, err = tritier(t.Context(), ioArgs()...)
	if !errors.Is(err, cuda.ErrSticky) || !errors.Is(err, cuda.IllegalAddress) {
		t.Error(err)
	}
}
