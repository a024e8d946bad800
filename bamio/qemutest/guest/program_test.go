package guest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tritier/tritier/bamio/layout"
	"github.com/tritier/tritier/libnvm"
)

// registersAt is where the program finds BAR0.
const registersAt = 0x2000_0000_0000

// program runs the program on the rig's queues and gives its figures. When it says that it is ready, ready (which may be nil) is called.
func (r *rig) program(t *testing.T, ready func(), what string, args ...string) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/program", what)
	for k, v := range map[string]uint64{
		"arena": arenaAt, "arena_bytes": uint64(len(r.arena.b)), "engine": address(r.engine), "versions": address(r.versions),
		"registers": registersAt, "registers_bytes": uint64(r.region.Bytes), "registers_offset": uint64(r.region.Offset),
	} {
		cmd.Args = append(cmd.Args, fmt.Sprintf("%s=%d", k, v))
	}
	cmd.Args = append(cmd.Args, args...)
	fd, err := unix.FcntlInt(uintptr(r.region.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	registers := os.NewFile(uintptr(fd), "registers")
	defer registers.Close()
	cmd.ExtraFiles = []*os.File{r.arena.file, registers} // descriptors 3 and 4
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var result map[string]uint64
	for in := bufio.NewScanner(out); in.Scan(); {
		figures, found := strings.CutPrefix(in.Text(), "RESULT ")
		switch {
		case found:
			result = parse(t, figures)
		case in.Text() == "READY" && ready != nil:
			ready()
			ready = nil
			continue
		}
		t.Log(in.Text())
	}
	if err := cmd.Wait(); err != nil || result == nil || result["problems"] != 0 {
		r.dump(t)
		t.Fatalf("%s: %v, figures %v\n%s", what, err, result, errs.Bytes())
	}
	if ready != nil {
		t.Error("the program never said that it was ready")
	}
	return result
}

func parse(t *testing.T, figures string) map[string]uint64 {
	out := map[string]uint64{}
	for _, f := range strings.Fields(figures) {
		name, value, _ := strings.Cut(f, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Errorf("figure %q: %v", f, err)
		}
		out[name] = n
	}
	return out
}

// dump shows where the queues stand, for failures.
func (r *rig) dump(t *testing.T) {
	for i, q := range r.queueStructs() {
		t.Logf("queue %d: tickets %d, rung %d, freed %d, CQ head %d, completions %d, spurious %d, failed %#x, locks %d %d, command ids %x",
			q.ID, q.Tickets, q.Rung, q.Freed, q.CQHead, q.Completions, q.Spurious, q.Failed, q.RingLock, q.CQLock,
			records[layout.Cid](r.arena, r.cids[i], int(q.CidCount)))
	}
}

// settled checks that the queues are as they must be when nothing is in flight: everything rung, completed and taken, nothing else, and the
// number of commands the program's own.
func (r *rig) settled(t *testing.T, first, commands uint64) (doorbells uint64) {
	t.Helper()
	var sum uint64
	for i, q := range r.queueStructs() {
		from := begin(first, int(q.Depth))
		sum += q.Completions
		doorbells += q.Doorbells
		ok := q.Tickets == q.Rung && q.Tickets == q.CQHead && q.Completions == q.Tickets-from && q.Freed <= q.Tickets &&
			q.Tickets-q.Freed < uint64(q.Depth) && q.Spurious == 0 && q.Failed == 0 && q.RingLock == 0 && q.CQLock == 0 && q.Doorbells <= q.Tickets-from
		for _, c := range records[layout.Cid](r.arena, r.cids[i], int(q.CidCount)) {
			ok = ok && c.Word == layout.Free
		}
		if !ok {
			r.dump(t)
			t.Fatalf("queue %d is not settled", q.ID)
		}
	}
	if sum != commands {
		t.Errorf("the queues completed %d commands, the program counts %d", sum, commands)
	}
	// An invalid doorbell value would have raised an event.
	var events [4]libnvm.Event
	if n, err := r.c.Events(events[:]); err != nil || n != 0 {
		t.Errorf("events %v, %v", events[:n], err)
	}
	return doorbells
}
