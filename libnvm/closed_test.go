package libnvm

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/libnvm/internal/spec"
)

// TestFUA: the bit is in the entry (CDW12, bit 30) of every command of a split
// request that asked for it, and of no other.
func TestFUA(t *testing.T) {
	for _, x := range []struct {
		name string
		op   Opcode
		fua  bool
		want bool
	}{
		{"write", OpWrite, true, true},
		{"write zeroes", OpWriteZeroes, true, true},
		{"write without", OpWrite, false, false},
		{"write zeroes without", OpWriteZeroes, false, false},
		{"compare", OpCompare, true, false},
		{"read without", OpRead, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newHost(t, 8)
			m, err := h.f.Alloc(128 << 10)
			h.must(err)
			blocks := 2 * h.ns.maxBlocks(x.op)
			_, err = h.q.Submit(&Request{Op: x.op, NS: h.ns, LBA: 3, Blocks: min(blocks, 1<<17), Mem: m, FUA: x.fua})
			h.must(err)
			for range 2 {
				c := h.fetch()
				if got := c.CDW12>>30&1 == 1; got != x.want || c.CDW12>>16&^(1<<14) != 0 {
					t.Errorf("CDW12 is %#x, want FUA %v", c.CDW12, x.want)
				}
			}
		})
	}
}

// TestShutdownIsAwaited: Close asks for a normal shutdown (CC.SHN) while the
// controller is enabled, and disables it only once CSTS.SHST says that it is over.
func TestShutdownIsAwaited(t *testing.T) {
	h := newHost(t, 8)
	r := h.f.regs
	r.Write32(spec.RegCAP, 0xff|20<<spec.CapTOShift)
	r.Write32(spec.RegCC, spec.CCEnable)
	r.Write32(spec.RegCSTS, spec.CSTSReady)
	h.c.caps = r.Read64(spec.RegCAP)
	h.c.setState(StateReady)
	closed := make(chan error, 1)
	go func() { closed <- h.c.Close() }()
	waitFor := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: CC %#x", what, r.Read32(spec.RegCC))
			}
		}
	}
	waitFor("no normal shutdown was asked for", func() bool {
		return r.Read32(spec.RegCC)&(spec.CCSHNMask|spec.CCEnable) == spec.CCSHNNorm|spec.CCEnable
	})
	time.Sleep(20 * time.Millisecond) // long enough for one that does not wait
	select {
	case err := <-closed:
		t.Fatalf("closed (%v) before the shutdown was complete", err)
	default:
	}
	if cc := r.Read32(spec.RegCC); cc&spec.CCEnable == 0 {
		t.Fatalf("disabled before the shutdown was complete: CC %#x", cc)
	}
	r.Write32(spec.RegCSTS, spec.CSTSReady|spec.CSTSShutOK)
	waitFor("not disabled after the shutdown", func() bool { return r.Read32(spec.RegCC)&spec.CCEnable == 0 })
	r.Write32(spec.RegCSTS, 0)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// TestUseAfterClose: nothing touches the registers, which the transport has
// unmapped, and everything says that the controller is closed.
func TestUseAfterClose(t *testing.T) {
	h, m, _ := timedOut(t)
	h.f.regs.Write32(spec.RegCAP, 0xff)
	h.f.regs.Write32(spec.RegCC, 0)
	h.f.regs.Write32(spec.RegCSTS, spec.CSTSShutOK)
	h.must(h.c.Close())
	h.c.regs.base = nil // what touches a register from here on crashes
	h.q.sqDB, h.q.cqDB = Doorbell{}, Doorbell{}
	allocated := len(h.f.memory)
	flush := Request{Op: OpFlush, NS: h.ns}
	for name, err := range map[string]error{
		"health":         h.c.Health(),
		"reset":          h.c.Reset(),
		"identify":       second(h.c.Identify(spec.CNSController, 0, 0)),
		"namespaces":     second(h.c.Namespaces()),
		"feature":        second(h.c.GetFeature(1, 0)),
		"SMART":          second(h.c.SMART()),
		"events":         second(h.c.Events(make([]Event, 1))),
		"enable events":  h.c.EnableEvents(0),
		"write cache":    h.c.SetWriteCache(true),
		"admin":          second(h.c.Admin(&Command{Opcode: AdminIdentify}, nil)),
		"create":         second(h.c.CreateQueuePair(QueueConfig{})),
		"submit":         second(h.q.Submit(&flush)),
		"submit batch":   last(h.q.SubmitBatch([]Request{flush})),
		"submit command": second(h.q.SubmitCommand(&Command{Opcode: OpFlush}, nil, 0, 0)),
		"do":             h.q.Do(&flush),
		"queue reset":    h.q.Reset(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	h.poll(1) // the request that had timed out
	h.poll(0)
	if _, err := h.q.Wait(1, time.Second); !errors.Is(err, ErrUnknownTicket) {
		t.Errorf("wait: %v", err)
	}
	if _, err := h.c.Abort(h.q, 1); !errors.Is(err, ErrUnknownTicket) {
		t.Errorf("abort: %v", err)
	}
	if l := h.q.Layout(); l.ID != 1 || l.Depth != 8 || l.SQ != nil || l.SQDoorbell.Pointer() != nil {
		t.Errorf("layout %+v", l)
	}
	var b bytes.Buffer
	if err := errors.Join(h.c.Dump(&b), h.q.Dump(&b)); err != nil || !strings.Contains(b.String(), "closed: the registers") {
		t.Errorf("dump: %v, %s", err, b.String())
	}
	if h.c.CMBBytes() != 0 || len(h.f.memory) != allocated {
		t.Errorf("%d pieces of memory were asked for", len(h.f.memory)-allocated)
	}
	if err := errors.Join(h.q.Close(), h.c.Close(), m.Free()); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func last(_ Ticket, _ int, err error) error { return err }

// TestExtremeTimeouts: the longest ends never, and a negative one is refused.
func TestExtremeTimeouts(t *testing.T) {
	for _, long := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 1 << 62} {
		h := newHost(t, 8)
		req := Request{Op: OpRead, NS: h.ns, Blocks: 1, Mem: h.f.memory[0], Timeout: long}
		_, err := h.q.Submit(&req)
		h.must(err)
		_, err = h.q.SubmitCommand(&Command{Opcode: OpFlush, NSID: 1}, nil, 0, long)
		h.must(err)
		h.q.expire(now() + int64(24*time.Hour))
		h.poll(0)
		h.post(h.fetch().CID, 1, 0)
		if _, err := h.q.Wait(1, long); err != nil {
			t.Errorf("wait with a time-out of %v: %v", long, err)
		}
	}
	h := newHost(t, 8)
	var re *RequestError
	if _, err := h.q.Submit(&Request{Op: OpFlush, NS: h.ns, Timeout: -1}); !errors.As(err, &re) {
		t.Errorf("a negative time-out: %v, want a *RequestError", err)
	}
	if _, err := h.q.SubmitCommand(&Command{Opcode: OpFlush}, nil, 0, math.MinInt64); !errors.As(err, &re) {
		t.Errorf("a negative time-out of a command: %v, want a *RequestError", err)
	}
	if h.q.Outstanding() != 0 {
		t.Errorf("%d commands were sent", h.q.Outstanding())
	}
}

// TestDeadlineOfSlowPoller: the first poll behind the deadline sees it, and with
// completions in the way the eighth at the latest.
func TestDeadlineOfSlowPoller(t *testing.T) {
	h := newHost(t, 32)
	h.f.regs.Write32(spec.RegCSTS, spec.CSTSReady)
	hung := Request{Op: OpRead, NS: h.ns, Blocks: 1, Mem: h.f.memory[0], Timeout: shortly}
	_, err := h.q.Submit(&hung)
	h.must(err)
	h.poll(0)
	time.Sleep(2 * shortly)
	var late *TimeoutError
	if c := h.poll(1)[0]; !errors.As(c.Err, &late) {
		t.Errorf("%v, want a *TimeoutError", c.Err)
	}
	h.fetch()
	_, err = h.q.Submit(&hung)
	h.must(err)
	h.fetch()
	time.Sleep(2 * shortly)
	for polls := 1; ; polls++ {
		_, err = h.read(1)
		h.must(err)
		h.post(h.fetch().CID, h.fetched, 0)
		out := make([]Completion, 4)
		if n := h.q.Poll(out); n > 1 {
			return
		}
		if polls == busyPolls {
			t.Fatalf("%d polls behind the deadline and no time-out", polls)
		}
	}
}
