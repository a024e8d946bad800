package guest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// load is a random load of the program: threads alone, and warps of lanes, each lane with an area of its own.
type load struct {
	solo, warps, lanes, rounds, area int
	seed, first                      uint64
}

func (l load) threads() int { return l.solo + l.warps*l.lanes }

// buffers are two for each lane.
func (l load) buffers() int { return 2 * l.threads() }

// run has the program do the load and checks all that can be checked afterwards.
func (l load) run(t *testing.T, r *rig) {
	t.Helper()
	t.Logf("seed %d", l.seed)
	blocks := l.threads() * l.area
	r.prepare(t, blocks)
	r.fill(t, 60*time.Second, l.first)
	got := r.program(t, nil, "load", fmt.Sprintf("solo=%d", l.solo), fmt.Sprintf("warps=%d", l.warps), fmt.Sprintf("lanes=%d", l.lanes),
		fmt.Sprintf("rounds=%d", l.rounds), fmt.Sprintf("area=%d", l.area), fmt.Sprintf("seed=%d", l.seed))
	doorbells := r.settled(t, l.first, got["commands"])
	for _, what := range []string{"reads", "writes", "flushes", "failed", "refused"} {
		if got[what] == 0 {
			t.Errorf("no %s in the load", what)
		}
	}
	written := r.verify(t, blocks)
	if written == 0 {
		t.Error("nothing was written")
	}
	t.Logf("%d commands with %d doorbell writes; %d of %d blocks have been written", got["commands"], doorbells, written, blocks)
	for _, q := range r.queueStructs() {
		if l.first != 0 && q.Tickets <= 1<<32 {
			t.Errorf("queue %d stopped at %#x, before 32 bits wrapped", q.ID, q.Tickets)
		}
	}
}

// wrap lets counters pass 32 bits soon after the start.
const wrap = 1<<32 - 100

// TestLoad drives queues of several depths with many threads more than places.
func TestLoad(t *testing.T) {
	for _, x := range []struct {
		name, serial string
		group
		load
	}{
		{"depth2", mainDrive, group{dataNS, 3, 2}, load{solo: 4, warps: 1, lanes: 4, rounds: 80, area: 256, seed: 1}},
		{"depth3", mainDrive, group{dataNS, 2, 3}, load{solo: 4, warps: 2, lanes: 4, rounds: 80, area: 256, seed: 2, first: wrap}},
		{"depth64", mainDrive, group{dataNS, 4, 64}, load{solo: 6, warps: 2, lanes: 8, rounds: 80, area: 256, seed: 3, first: wrap}},
		{"depth1000", mainDrive, group{dataNS, 1, 1000}, load{solo: 2, warps: 1, lanes: 31, rounds: 60, area: 256, seed: 4, first: wrap}},
		{"narrow", narrowDrive, group{dataNS, 1, 5}, load{solo: 3, warps: 1, lanes: 3, rounds: 120, area: 64, seed: 5, first: wrap}},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.run(t, newRig(t, x.serial, x.buffers(), x.group))
		})
	}
}

// mixed has queues on all namespaces of the main drive.
func mixed(t *testing.T, slowDepth int) *rig {
	return newRig(t, mainDrive, smallLoad.buffers(), group{dataNS, 1, 8}, group{badNS, 2, 3}, group{slowNS, 1, slowDepth})
}

// smallLoad shows that queues work after something went wrong.
var smallLoad = load{solo: 4, warps: 1, lanes: 2, rounds: 20, area: 256, seed: 9}

// TestStatuses has commands of many threads fail in many ways: each thread gets the status of its own command.
func TestStatuses(t *testing.T) {
	r := mixed(t, 3)
	r.fill(t, 60*time.Second, 0)
	got := r.program(t, nil, "statuses", "threads=9", "rounds=200")
	r.settled(t, 0, got["commands"])
	smallLoad.run(t, again(t, r))
}

// again makes the rig's queues anew.
func again(t *testing.T, r *rig) *rig {
	t.Helper()
	for _, q := range r.pairs {
		if err := q.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestTimeouts: commands that take longer than the deadline end with a time-out and keep their ids until their late completions.
func TestTimeouts(t *testing.T) {
	r := mixed(t, 3)
	r.fill(t, 200*time.Millisecond, 0)
	got := r.program(t, nil, "timeouts")
	r.settled(t, 0, got["commands"])
	smallLoad.run(t, again(t, r))
}

// TestStop: the host's word ends waits long before their deadline.
func TestStop(t *testing.T) {
	r := mixed(t, 64)
	r.fill(t, 60*time.Second, 0)
	start := time.Now()
	r.program(t, func() { r.arena.store(r.stop, 1) }, "stop")
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
	smallLoad.run(t, again(t, r))
}

// TestReset resets the PCI function under commands in flight: they time out, and after a reset of the controller the queues work.
func TestReset(t *testing.T) {
	r := mixed(t, 64)
	r.fill(t, 4*time.Second, 0)
	r.program(t, func() { check(t, r.tr.Reset()) }, "reset")
	var lost *libnvm.NotReadyError
	if err := r.c.Health(); !errors.As(err, &lost) {
		t.Errorf("after a reset behind the driver's back: %v", err)
	}
	if err := r.c.Reset(); err != nil {
		t.Fatal(err)
	}
	check(t, r.c.EnableEvents(0))
	smallLoad.run(t, r)
}
