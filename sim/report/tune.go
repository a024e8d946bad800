package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim/tune"
)

// Tune shows what a search for policies found out. It is read-only to this
// package; several writers may use one at the same time.
type Tune struct {
	*tune.Report
	About   string             // in a sentence, what the reader is looking at; may be empty
	Command string             // the command line; may be empty
	Model   *servicetime.Model // source of the modelled times; nil when there are none
	// Saved is the file that the best policy went to; empty: none.
	Saved string
}

// JSON writes the report as one object, whose fields are those of tune.Report.
// Errors are those of w.
func (t *Tune) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(t.Report)
}

// Table writes the report for a terminal. Errors are those of w.
func (t *Tune) Table(w io.Writer) error {
	b := bufio.NewWriter(w)
	if t.About != "" {
		fmt.Fprintf(b, "%s\n\n", t.About)
	}
	t.tuneHead(b)
	if best := t.Winner(); best != nil {
		what := "best policy"
		if t.Interrupted {
			what = "best policy so far (interrupted: on miniatures or in training alone)"
		}
		fmt.Fprintf(b, "\n%s\n  %s\n", what, best.Policy)
		for _, s := range t.verdict() {
			fmt.Fprintf(b, "  %s\n", s)
		}
		t.ranking(b)
		t.perTrace(b)
		t.examined(b)
		t.inFull(b)
	} else {
		fmt.Fprintf(b, "\nnothing is known yet\n")
	}
	if t.Saved != "" {
		fmt.Fprintf(b, "\nsaved    the best policy, to %s: tritier replay --policy @%s\n", Printable(t.Saved), shellWord(t.Saved))
	}
	return b.Flush()
}

// shellWord is a file's name for a command to copy.
func shellWord(name string) string {
	if strings.ContainsAny(name, " '\"$`\\&|;<>()*?[]#~!\t\n") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// tuneHead says what was tuned, how, and for what.
func (t *Tune) tuneHead(b *bufio.Writer) {
	for _, tr := range t.Traces {
		fmt.Fprintf(b, "trace    %s (%s)\n         %s\n", Printable(tr.Name), identity(tr.TraceInfo), volume(tr.TraceInfo))
		fmt.Fprintf(b, "         training on the first %s; held out: the other %s, in tiers that training has warmed\n",
			units.FormatCount(uint64(tr.Train)), units.FormatCount(uint64(tr.HeldOut)))
	}
	for i, s := range t.Sizes[:min(len(t.Sizes), maxSizesListed)] {
		fmt.Fprintf(b, "%-8s %s\n", map[bool]string{true: "sizes"}[i == 0], t.sizeText(s))
	}
	if more := len(t.Sizes) - maxSizesListed; more > 0 {
		fmt.Fprintf(b, "         and %d more\n", more)
	}
	fmt.Fprintf(b, "goal     %s\n", t.goal())
	for _, s := range t.goalNotes() {
		fmt.Fprintf(b, "         %s\n", s)
	}
	fmt.Fprintf(b, "search   %s\n", t.effort())
	fmt.Fprintf(b, "seed     %d\n", t.Seed)
}

const maxSizesListed = 12

// sizeText describes a choice of sizes: with one trace also in frames.
func (t *Tune) sizeText(s tune.SizeReport) string {
	text := s.Name
	if len(t.Traces) == 1 {
		text = framesText(s.Frames[0], t.Traces[0].PageSize)
	}
	if s.Cost > 0 {
		text += fmt.Sprintf(", costs %.4g", s.Cost)
	}
	return text
}

func framesText(f [2]int, pageSize uint64) string {
	return fmt.Sprintf("T1 GPU memory %s, T2 host memory %s", tierText(f[0], pageSize), tierText(f[1], pageSize))
}

// goal names what is made small.
func (t *Tune) goal() string {
	var parts []string
	o := t.Objective
	for _, p := range []struct {
		weight float64
		name   string
	}{{o.Time, "modelled time of " + t.Report.Model}, {o.SSDReads, "SSD reads"}, {o.SSDWrites, "SSD bytes written"}} {
		switch {
		case p.weight == 0:
		case o.Time+o.SSDReads+o.SSDWrites == p.weight:
			parts = append(parts, p.name)
		default:
			parts = append(parts, fmt.Sprintf("%.4g x %s", p.weight, p.name))
		}
	}
	text := strings.Join(parts, " + ")
	switch {
	case len(t.Traces) > 1 && o.Worst:
		text += ", on the worst of the traces"
	case len(t.Traces) > 1:
		text += ", the mean over the traces"
	}
	return text
}

// goalNotes say how to read scores and times.
func (t *Tune) goalNotes() []string {
	out := []string{"scores are relative to LRU in both tiers at the first size, on the same part of the trace: lower is better"}
	if t.Model != nil {
		out = append(out, "times are modelled from the figures of "+t.Model.Name+", not measured")
	}
	if limit := t.MaxWriteBytesPerDay; limit > 0 {
		out = append(out, "at most "+units.FormatBytes(uint64(limit))+" written to SSD a day, on every trace")
	}
	return out
}

// effort says how much was tried, on what.
func (t *Tune) effort() string {
	var rungs []string
	for _, r := range t.Rungs {
		lo, hi := slices.Min(r.Rates), slices.Max(r.Rates)
		what := "whole traces"
		switch {
		case lo < hi && hi == 1:
			what = fmt.Sprintf("miniatures from 1/%.3g up", 1/lo)
		case lo < hi:
			what = fmt.Sprintf("miniatures of 1/%.3g to 1/%.3g", 1/lo, 1/hi)
		case lo < 1:
			what = fmt.Sprintf("miniatures of 1/%.3g", 1/lo)
		}
		if r.Candidates > 0 {
			rungs = append(rungs, fmt.Sprintf("%s on %s", units.FormatCount(uint64(r.Candidates)), what))
		}
	}
	text := counted(uint64(t.Candidates), "candidate")
	if len(rungs) > 0 {
		text += ": " + strings.Join(rungs, ", ")
	}
	return text + "; " + counted(uint64(t.Evaluations), "evaluation")
}

// verdict is what the winner means, in sentences.
func (t *Tune) verdict() []string {
	best := t.Winner()
	var out []string
	if len(t.Sizes) > 1 {
		out = append(out, "at "+t.sizeText(t.Sizes[best.Size]))
	}
	if best.Train.Score.Excess > 0 {
		out = append(out, fmt.Sprintf("NOTE: no candidate keeps the constraints; this one is over by %.3g %%", 100*best.Train.Score.Excess))
	}
	if t.Regret == nil {
		return out
	}
	over := best.HeldOut.Score.Mean
	if t.Objective.Worst {
		over = best.HeldOut.Score.Worst
	}
	out = append(out, fmt.Sprintf("held out: score %.4f; no policy at this size can be below %.4f; %.2f %% worse than the best of the ranking there",
		over, best.HeldOut.Bound, 100**t.Regret))
	for i := range best.HeldOut.Traces {
		tp := &best.HeldOut.Traces[i]
		text := fmt.Sprintf("%s SSD reads", units.FormatCount(uint64(tp.SSDReads+0.5)))
		if over, ok := tp.OverBound(); ok {
			text += fmt.Sprintf(", %.1f %% over Belady's bound of %s", 100*over, units.FormatCount(uint64(tp.BoundSSDReads)))
		}
		if t.Model != nil {
			text += fmt.Sprintf(", modelled %s", seconds(tp.Seconds))
		}
		if len(t.Traces) > 1 {
			text = Printable(t.Traces[i].Name) + ": " + text
		}
		out = append(out, "held out: "+text)
	}
	return out
}
