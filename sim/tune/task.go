package tune

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// taskVersion changes when the same Task gives another Outcome than before.
const taskVersion = 1

// Task is one evaluation, as plain data.
type Task struct {
	Trace string `json:"trace"` // HashTrace of the trace
	// Cuts are ascending trace positions (accesses and prefetches). The
	// replay ends at the last one; each closes a window of counts.
	Cuts       []int   `json:"cuts"`
	Rate       float64 `json:"rate"`                  // of the miniature's pages, above 0; 1: no miniature
	SampleSeed uint64  `json:"sample_seed,omitempty"` // of the choice of its pages
	GPUFrames  int     `json:"gpu_frames"`            // of the whole trace: a miniature's are fewer
	HostFrames int     `json:"host_frames"`
	Policy     string  `json:"policy,omitempty"` // canonical, as for the whole trace
	Seed       uint64  `json:"seed,omitempty"`   // of the policy
	// Bound asks for Belady's bound instead of a policy's counts.
	Bound bool `json:"bound,omitempty"`
}

// Key is what names the task in a journal: a hash of its version and content.
func (t *Task) Key() string {
	text, err := json.Marshal(t)
	if err != nil { // a Rate that is no number
		text = fmt.Appendf(nil, "%+v", *t)
	}
	sum := sha256.Sum256(append(fmt.Appendf(nil, "tritier-tune-%d\n", taskVersion), text...))
	return hex.EncodeToString(sum[:16])
}

// cost is about how many accesses the task replays.
func (t *Task) cost() float64 {
	if len(t.Cuts) == 0 {
		return 0
	}
	return float64(t.Cuts[len(t.Cuts)-1]) * t.Rate
}

// Outcome is the result of a Task, as plain data.
type Outcome struct {
	Windows []Counts `json:"windows"` // one for each cut
	Share   float64  `json:"share"`   // sampled pages over all: counts over it are those of the whole
	Weight  float64  `json:"weight"`  // accesses over those sampled
}

// Counts is what happened within a window, on the pages replayed. For Bound,
// SSDReads alone is set.
type Counts struct {
	Accesses  uint64 `json:"accesses"`
	T1Hits    uint64 `json:"t1_hits"`
	T2Hits    uint64 `json:"t2_hits"`
	SSDReads  uint64 `json:"ssd_reads"`  // fetches and prefetches
	SSDWrites uint64 `json:"ssd_writes"` // pages written back, and those made dirty that a flush would write
	Demotions uint64 `json:"demotions"`  // T1 to T2, copies that were there left out
}

// check refuses an outcome that cannot be one of t: an Evaluator may be a file or
// another machine.
func (o *Outcome) check(t *Task) error {
	if len(o.Windows) != len(t.Cuts) || !(o.Share > 0 && o.Share <= 1) || !(o.Weight > 0) || math.IsInf(o.Weight, 1) {
		return fmt.Errorf("tune: the evaluator's outcome of %s has %d windows, share %g and weight %g: want %d windows, a share above 0 and up to 1, and a weight above 0",
			t.Policy, len(o.Windows), o.Share, o.Weight, len(t.Cuts))
	}
	return nil
}

// since is what happened between two snapshots of a machine.
func since(was, now *tier.Counters) Counts {
	return Counts{
		Accesses: now.Accesses - was.Accesses, T1Hits: now.T1Hits - was.T1Hits, T2Hits: now.T2Hits - was.T2Hits,
		SSDReads: now.SSDReads() - was.SSDReads(),
		// A dirty page stays so until it is written, so this never falls.
		SSDWrites: now.Writebacks + now.FinalDirty - was.Writebacks - was.FinalDirty,
		Demotions: now.Demotions - now.CopiesSaved - was.Demotions + was.CopiesSaved,
	}
}

// HashTrace names a trace by what an evaluation depends on: its accesses,
// under their dense numbers.
func HashTrace(t *sim.Trace) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "tritier-trace %d %d\n", t.Info.Pages, len(t.Accesses)) // a hash takes everything
	buf := make([]byte, 0, 64<<10)
	for block := range slices.Chunk(t.Accesses, cap(buf)/4) {
		buf = buf[:0]
		for _, a := range block {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(a))
		}
		_, _ = h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Evaluate runs a task on its trace. It is a pure function of both, safe for
// concurrent use; an error is one of the task, such as a tier too small for
// its policy, or ctx's.
func Evaluate(ctx context.Context, t *sim.Trace, task Task) (Outcome, error) {
	m, err := newMiniature(t, &task)
	if err != nil {
		return Outcome{}, err
	}
	return m.evaluate(ctx, &task)
}

// miniature is the part of a trace that tasks with equal cuts, rates and
// sampling seeds share.
type miniature struct {
	sample *sim.Sample
	cuts   []int // in the sample
}

func newMiniature(t *sim.Trace, task *Task) (*miniature, error) {
	if err := task.check(t); err != nil {
		return nil, err
	}
	prefix := func(n int) *sim.Sample {
		return (&sim.Trace{Info: t.Info, Accesses: t.Accesses[:n]}).Sample(task.Rate, task.SampleSeed)
	}
	last := len(task.Cuts) - 1
	m := &miniature{sample: prefix(task.Cuts[last]), cuts: append([]int(nil), task.Cuts...)}
	if task.Rate >= 1 {
		return m, nil
	}
	for i, n := range task.Cuts[:last] {
		m.cuts[i] = len(prefix(n).Trace.Accesses)
	}
	m.cuts[last] = len(m.sample.Trace.Accesses)
	return m, nil
}

func (t *Task) check(tr *sim.Trace) error {
	if len(t.Cuts) == 0 || !(t.Rate > 0 && t.Rate <= 1) {
		return fmt.Errorf("tune: a task needs a cut and a rate above 0 and up to 1, not %v and %g", t.Cuts, t.Rate)
	}
	at := 0
	for _, c := range t.Cuts {
		if c < at || c > len(tr.Accesses) {
			return fmt.Errorf("tune: cuts %v do not ascend from 0 to the trace's end at %d", t.Cuts, len(tr.Accesses))
		}
		at = c
	}
	return nil
}

func (m *miniature) evaluate(ctx context.Context, task *Task) (Outcome, error) {
	last := len(m.cuts) - 1
	o := Outcome{Share: m.sample.Share, Weight: float64(task.Cuts[last]) / float64(max(m.cuts[last], 1))}
	gpu, host := m.sample.Frames(task.GPUFrames), m.sample.Frames(task.HostFrames)
	if task.Bound {
		o.Windows = m.bound(gpu + host)
		return o, ctx.Err()
	}
	policy, err := placement.Parse(task.Policy)
	if err != nil {
		return o, fmt.Errorf("tune: %w", err)
	}
	job := sim.Job{Policy: policy.Scaled(m.sample.Share), GPUFrames: gpu, HostFrames: host, Seed: task.Seed}
	snapshots, err := sim.Snapshots(ctx, m.sample.Trace, job, m.cuts...)
	if err != nil {
		return o, err
	}
	was := tier.Counters{}
	for i := range snapshots {
		o.Windows = append(o.Windows, since(&was, &snapshots[i]))
		was = snapshots[i]
	}
	return o, nil
}

// bound gives, for each window, the fewest SSD reads that any policy can have
// in it, whatever it has in its tiers at the window's start: Belady's bound of
// a trace in which every page used before is written whole, the last one last,
// since that is resident under every policy, and then the window.
func (m *miniature) bound(frames int) []Counts {
	t := m.sample.Trace
	var out []Counts
	from := 0
	for _, to := range m.cuts {
		b := sim.NewBound(frames, t.Info.Pages)
		b.Run(pagesBefore(t, from), t.Info.Pages)
		b.Run(t.Accesses[from:to], t.Info.Pages)
		out = append(out, Counts{SSDReads: b.Reads()})
		from = to
	}
	return out
}

// pagesBefore writes each page that is used before position from once, in the
// order of their last uses.
func pagesBefore(t *sim.Trace, from int) []tier.Access {
	seen := make([]bool, t.Info.Pages)
	out := make([]tier.Access, t.Info.Pages)
	at := len(out)
	for i := from - 1; i >= 0; i-- {
		if p := t.Accesses[i].Page(); !seen[p] {
			seen[p] = true
			at--
			out[at] = tier.MakeAccess(p, tier.Overwrite)
		}
	}
	return out[at:]
}
