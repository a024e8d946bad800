package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/tier/host"
	"github.com/tritier/tritier/workload"
)

// Tracks of a timeline: spans of one never overlap.
const (
	trackPhase = iota
	trackKernel
	trackEvents // lanes for each kind of event from here on
)

// lanes bounds the tracks of a kind: victims of T1 and of T2 are written at a time.
const lanes = 4

// mostMoves bounds the events of a timeline, at 100 to 200 bytes each, so that viewers open
// it. Misses beyond it are left out with their moves, and counted.
var mostMoves uint64 = 500_000

// timeline writes spans as Chrome trace JSON, which Perfetto opens: an object with
// traceEvents, complete events in microseconds. Nil writes nothing.
type timeline struct {
	file  *output
	begun time.Time
	busy  [host.EventKinds][lanes]time.Time // until when

	mu    sync.Mutex // with engine gpu, moves come from a goroutine of their own
	w     *bufio.Writer
	first bool
	err   error
	moves uint64     // written, misses among them
	over  uint64     // misses, or moves without one, beyond mostMoves
	pages *pageRows  // of engine gpu
	told  lib.Traced // at the end
	ended bool       // the document is complete: what closing the memory moves is not in it
}

func newTimeline(file *output, name string) *timeline {
	if file == nil {
		return nil
	}
	t := &timeline{file: file, w: bufio.NewWriterSize(file, 1<<16), begun: time.Now(), first: true, pages: &pageRows{}}
	t.write(`{"displayTimeUnit":"ns","traceEvents":[`)
	t.meta("process_name", 0, name)
	t.meta("thread_name", trackPhase, "phases")
	t.meta("thread_name", trackKernel, "kernels")
	return t
}

// lane is the first track of the event's kind that is free when it begins. A track is
// named when it is first used.
func (t *timeline) lane(e lib.Event) int {
	busy := &t.busy[e.Kind]
	n := 0
	for n < lanes-1 && e.Start.Before(busy[n]) {
		n++
	}
	track := trackEvents + int(e.Kind)*lanes + n
	if busy[n].IsZero() {
		t.meta("thread_name", track, eventTrack(e.Kind))
	}
	busy[n] = e.Start.Add(e.Took)
	return track
}

// eventTrack names the track of a kind of events.
func eventTrack(k host.EventKind) string {
	return map[host.EventKind]string{host.EventMiss: "misses", host.EventRead: "read T3 to T2", host.EventWrite: "write T2 to T3",
		host.EventDemote: "copy T1 to T2", host.EventPromote: "copy T2 to T1", host.EventElements: "elements of T1", host.EventFlush: "flush T3", host.EventSave: "flushed pages"}[k]
}

func (t *timeline) write(text string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(text)
	}
}

// item writes one event. Its caller, and that of the other writing methods, has mu.
func (t *timeline) item(v map[string]any) {
	b, err := json.Marshal(v)
	if err != nil && t.err == nil {
		t.err = err
	}
	t.raw(b)
}

// raw writes one event that is JSON already.
func (t *timeline) raw(b []byte) {
	if !t.first {
		t.write(",")
	}
	t.first = false
	t.write("\n")
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

func (t *timeline) meta(what string, track int, name string) {
	t.item(map[string]any{"ph": "M", "pid": 1, "tid": track, "name": what, "args": map[string]any{"name": name}})
	if what == "thread_name" {
		t.item(map[string]any{"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": map[string]any{"sort_index": track}})
	}
}

// span writes a complete event.
func (t *timeline) span(track int, category, name string, start time.Time, took time.Duration, args map[string]any) {
	micro := func(d time.Duration) json.Number { return json.Number(fmt.Sprintf("%.3f", float64(d)/1e3)) }
	v := map[string]any{"ph": "X", "pid": 1, "tid": track, "cat": category, "name": name, "ts": micro(start.Sub(t.begun)), "dur": micro(took)}
	if args != nil {
		v["args"] = args
	}
	t.item(v)
}

// observe listens to the moves of a run.
func (t *timeline) observe(c *lib.Config) {
	if t == nil {
		return
	}
	c.Events = func(e lib.Event) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.ended {
			return
		}
		if e.Array != "" {
			t.page(e)
			return
		}
		if t.moves >= mostMoves {
			t.over++
			return
		}
		t.moves++
		args := map[string]any{"count": e.Count}
		if e.Bytes > 0 {
			args["bytes"] = e.Bytes
		}
		t.span(t.lane(e), "tier", e.Kind.String(), e.Start, e.Took, args)
	}
}

// launched takes a kernel launch over.
func (t *timeline) launched(l workload.Launch) {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		var args map[string]any
		if l.Kernel > 0 {
			args = map[string]any{"gpu_us": float64(l.Kernel) / 1e3}
		}
		t.span(trackKernel, "kernel", l.Name, l.Start, l.Took, args)
	}
}

// counts writes what the tiers have counted so far, as Perfetto draws counters.
func (t *timeline) counts(mem *lib.Memory) {
	if t == nil {
		return
	}
	s := mem.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := json.Number(fmt.Sprintf("%.3f", float64(time.Since(t.begun))/1e3))
	for name, values := range map[string]map[string]any{
		"accesses": {"T1 hits": s.Counters.T1Hits, "T2 hits": s.Counters.T2Hits, "T3 fetches": s.Counters.T3Fetches, "overwrites": s.Counters.Overwrites},
		"victims":  {"demotions": s.Counters.Demotions, "bypasses": s.Counters.Bypasses, "writebacks": s.Counters.Writebacks},
	} {
		t.item(map[string]any{"ph": "C", "pid": 1, "tid": trackPhase, "name": name, "ts": at, "args": values})
	}
}

// phase runs f as a span.
func (t *timeline) phase(name string, f func() error) error {
	if t == nil {
		return f()
	}
	start := time.Now()
	err := f()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.span(trackPhase, "phase", name, start, time.Since(start), nil)
	return err
}

// traced waits for the moves of what has ended.
func (t *timeline) traced(ctx context.Context, mem *lib.Memory) error {
	if t == nil {
		return nil
	}
	told, err := mem.Traced(ctx)
	if err != nil {
		return fmt.Errorf("--trace-out: %w", err)
	}
	t.told = told
	return nil
}

// missing says what the timeline does not have, or "".
func (t *timeline) missing() string {
	misses, list := " misses", []string(nil)
	if t.told.Begun == 0 { // engine host
		misses = " events"
	}
	for _, x := range []struct {
		n    uint64
		what string
	}{{t.told.Begun - t.told.Sampled, "by --trace-sample"}, {t.over, "for the size of the file"}, {t.told.LeftOut, "since writing it was too slow"}} {
		if x.n > 0 {
			list = append(list, units.FormatCount(x.n)+misses+" left out "+x.what)
		}
	}
	if t.told.Cut > 0 {
		list = append(list, units.FormatCount(t.told.Cut)+" single moves missing")
	}
	return strings.Join(list, ", ")
}

// end completes the document, and returns what it says about itself and what it lacks.
func (t *timeline) end() (about map[string]uint64, lacks string, err error) {
	if t == nil {
		return nil, "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	text, err := json.Marshal(t.about())
	if err != nil && t.err == nil {
		t.err = err
	}
	t.write("\n],\"otherData\":" + string(text) + "}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return nil, "", fmt.Errorf("--trace-out: %w", t.err)
	}
	return t.about(), t.missing(), nil
}

// about is what the document says of itself, and run's JSON too.
func (t *timeline) about() map[string]uint64 {
	m := map[string]uint64{"events": t.moves, "left_out_for_size": t.over}
	if k := t.told; k.Begun > 0 {
		m["misses"], m["left_out_by_sample"], m["left_out_too_slow"], m["moves_missing"] = k.Begun, k.Begun-k.Sampled, k.LeftOut, k.Cut
		m["clock_off_ns"] = uint64(k.Clock)
	}
	return m
}
