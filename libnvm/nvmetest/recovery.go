package nvmetest

import (
	"errors"
	"strings"
	"time"

	"github.com/tritier/tritier/libnvm"
)

// testReset resets the controller with requests outstanding. Every one of them
// completes once, queue pairs work again, and data is still there.
func testReset(e *env) {
	q := e.queue(16)
	qs := []*libnvm.QueuePair{q}
	if e.c.QueueLimit() > 1 {
		qs = append(qs, e.queue(4))
	}
	data := e.pattern(4 * e.ns.BlockSize)
	e.write(q, 9, data, 0)
	m := e.buffer(10 * e.ns.BlockSize)
	batch := make([]libnvm.Request, 10)
	for i := range batch {
		batch[i] = libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: uint64(i), Blocks: 1, Mem: m, Offset: i * e.ns.BlockSize, Tag: uint64(i)}
	}
	_, n, err := q.SubmitBatch(batch)
	e.must(err)
	var done []libnvm.Completion
	if e.o.FetchBeforeReset {
		done = e.drain(q, 1)
	}
	e.must(e.c.Reset())
	done = append(done, e.drain(q, n-len(done))...)
	seen := map[uint64]bool{}
	for _, c := range done {
		if c.Err != nil && !errors.Is(c.Err, libnvm.ErrReset) {
			e.Errorf("request %d ended with %v", c.Tag, c.Err)
		}
		seen[c.Tag] = true
	}
	if len(seen) != len(batch) || q.Poll(make([]libnvm.Completion, 1)) != 0 {
		e.Errorf("%d of %d requests ended, or some twice", len(seen), len(batch))
	}
	for _, x := range qs {
		e.expect(x, 9, data, 0)
		for range 40 {
			e.expectAny(x)
		}
		if x.Quarantined() != 0 {
			e.Errorf("%d command ids in quarantine after a reset", x.Quarantined())
		}
	}
}

func testResetQueue(e *env) {
	q := e.queue(8)
	const n = 6 // with the read and the write around them, not a whole lap
	m := e.buffer(n * e.ns.BlockSize)
	data := e.pattern(e.ns.BlockSize)
	e.write(q, 3, data, 0)
	for round := range 3 {
		for i := range n {
			_, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: 3, Blocks: 1, Mem: m, Offset: i * e.ns.BlockSize, Tag: uint64(i)})
			e.must(err)
		}
		e.must(q.Reset())
		seen := map[uint64]bool{}
		for _, c := range e.drain(q, n) {
			if seen[c.Tag] {
				e.Fatalf("request %d completed twice in round %d", c.Tag, round)
			}
			seen[c.Tag] = true
		}
		e.expect(q, 3, data, 0)
	}
}

func testFeatures(e *env) {
	const temperature = 0x04
	old, err := e.c.GetFeature(temperature, 0)
	e.must(err)
	_, err = e.c.SetFeature(temperature, 0, 340, false)
	e.must(err)
	got, err := e.c.GetFeature(temperature, 0)
	e.must(err)
	if got&0xffff != 340 {
		e.Errorf("temperature threshold is %d after it was set to 340", got&0xffff)
	}
	_, err = e.c.SetFeature(temperature, 0, old, false)
	e.must(err)
	if _, err := e.c.GetFeature(0xbf, 0); want(err, libnvm.StatusInvalidField) != nil {
		e.Errorf("a feature that is not there: %v", err)
	}
	if e.c.Info().VolatileCache {
		e.must(e.c.SetWriteCache(false))
		v, err := e.c.GetFeature(0x06, 0)
		e.must(err)
		if v&1 != 0 {
			e.Error("the write cache is on after it was switched off")
		}
		e.must(e.c.SetWriteCache(true))
	}
}

func testLogs(e *env) {
	q := e.queue(4)
	e.expectAny(q)
	a, err := e.c.SMART()
	e.must(err)
	for range 20 {
		e.expectAny(q)
	}
	b, err := e.c.SMART()
	e.must(err)
	if b.HostReads < a.HostReads || b.HostWrites < a.HostWrites || b.HostReads == 0 {
		e.Errorf("reads %d then %d, writes %d then %d", a.HostReads, b.HostReads, a.HostWrites, b.HostWrites)
	}
	_, err = e.c.ErrorLog(4)
	e.must(err)
	if err := e.c.LogPage(0xbf, 0xffffffff, make([]byte, 512)); want(err, libnvm.StatusInvalidLogPage) != nil &&
		want(err, libnvm.StatusInvalidField) != nil {
		e.Errorf("a log page that is not there: %v", err)
	}
	var s strings.Builder
	e.must(e.c.Dump(&s))
	e.must(q.Dump(&s))
	for _, word := range []string{"queue pair", "SQ: tail", "CQ: head", "phase", "completion"} {
		if !strings.Contains(s.String(), word) {
			e.Errorf("the dump lacks %q", word)
		}
	}
}

// testEvents rings a doorbell with a value outside its queue.
func testEvents(e *env) {
	e.must(e.c.EnableEvents(0xff))
	q := e.queue(4)
	for range 2 {
		q.Layout().SQDoorbell.Ring(60000)
		ev := e.event()
		if ev.Type != 0 || ev.Info > 1 {
			e.Errorf("got %v, want an error event about a doorbell", ev)
		}
		e.must(q.Reset())
		e.expectAny(q)
	}
}

// event waits for the next asynchronous event.
func (e *env) event() libnvm.Event {
	e.Helper()
	var out [1]libnvm.Event
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n, err := e.c.Events(out[:])
		e.must(err)
		if n == 1 {
			return out[0]
		}
	}
	e.Fatal("no event within 10 s")
	return out[0]
}

// testTimeout lets requests run into their deadline. Memory and command ids
// stay in quarantine until a reset, and late completions are recognised.
func testTimeout(e *env) {
	q := e.queue(8)
	m, err := e.tr.Alloc(4 * e.ns.BlockSize)
	e.must(err)
	release := e.o.Stall(e)
	var tickets []libnvm.Ticket
	for i := range 4 {
		t, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, LBA: uint64(i), Blocks: 1, Mem: m, Offset: i * e.ns.BlockSize})
		e.must(err)
		tickets = append(tickets, t)
	}
	var te *libnvm.TimeoutError
	for _, t := range tickets[:3] {
		if _, err := q.Wait(t, 30*time.Millisecond); !errors.As(err, &te) || !te.Timeout() {
			e.Fatalf("ticket %d: got %v, want a time-out", t, err)
		}
	}
	if q.Quarantined() != 3 || m.Held() != 3 {
		e.Errorf("%d command ids and %d uses of the memory in quarantine, want 3", q.Quarantined(), m.Held())
	}
	if err := m.Free(); !errors.Is(err, libnvm.ErrMemoryHeld) {
		e.Errorf("the memory could be freed: %v", err)
	}
	release()
	if _, err := q.Wait(tickets[3], 10*time.Second); err != nil {
		e.Errorf("the request that had time left: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); q.Stats().Late < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		q.Poll(make([]libnvm.Completion, 1))
	}
	if st := q.Stats(); st.Late != 3 || st.TimedOut != 3 || st.Duplicate != 0 {
		e.Errorf("%d late completions, %d time-outs, want 3 and 3", st.Late, st.TimedOut)
	}
	if q.Quarantined() != 3 {
		e.Errorf("%d command ids in quarantine after late completions, want 3 until a reset", q.Quarantined())
	}
	e.expectAny(q) // what is left of the queue works
	e.must(q.Reset())
	if q.Quarantined() != 0 || m.Held() != 0 {
		e.Errorf("quarantine of %d ids and %d uses after the reset", q.Quarantined(), m.Held())
	}
	e.must(m.Free())
	e.expectAny(q)
}

// testAbort aborts a request that the controller holds back.
func testAbort(e *env) {
	q := e.queue(8)
	m := e.buffer(e.ns.BlockSize)
	release := e.o.Stall(e)
	defer release()
	t, err := q.Submit(&libnvm.Request{Op: libnvm.OpRead, NS: e.ns, Blocks: 1, Mem: m})
	e.must(err)
	n := 0 // until the controller has fetched it, there is nothing to abort
	for end := time.Now().Add(10 * time.Second); n == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		n, err = e.c.Abort(q, t)
		e.must(err)
	}
	if n != 1 {
		e.Fatalf("%d commands aborted, want 1", n)
	}
	_, err = q.Wait(t, 10*time.Second)
	if err := want(err, libnvm.StatusAbortRequested); err != nil {
		e.Error(err)
	}
	if _, err := e.c.Abort(q, t); !errors.Is(err, libnvm.ErrUnknownTicket) {
		e.Errorf("abort of a request that is over: %v", err)
	}
}
