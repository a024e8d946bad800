package report

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
)

// Report is a set of results and what is needed to explain them. It is
// read-only to this package; several writers may use one at the same time.
type Report struct {
	Results []sim.Result
	// Labels name each result's policy for people, in place of the long
	// canonical form; as long as Results, or nil.
	Labels []string
	// About says in a sentence what the reader is looking at; may be empty.
	About string
	// Command is the command line that made the results; may be empty.
	Command string
	// Model is the source of the modelled times; nil when there are none.
	Model *servicetime.Model
	// Interrupted says that the run was cut short: results may be missing.
	Interrupted bool
}

// row is one result with the name that people see.
type row struct {
	*sim.Result
	label string
}

// sizeGroup holds the results of one trace at one pair of tier sizes.
type sizeGroup struct {
	gpu, host int
	rows      []row
}

// traceGroup holds the results of one trace, sizes in order of appearance.
type traceGroup struct {
	info  sim.TraceInfo
	sizes []sizeGroup
}

// rows returns the results of all sizes.
func (g *traceGroup) rows() []row {
	var all []row
	for _, s := range g.sizes {
		all = append(all, s.rows...)
	}
	return all
}

// groups sorts results by trace and size; within each the order stays.
func (r *Report) groups() []traceGroup {
	var out []traceGroup
	labels := r.labels()
	for i := range r.Results {
		res := &r.Results[i]
		if n := len(out); n == 0 || out[n-1].info != res.Trace {
			out = append(out, traceGroup{info: res.Trace})
		}
		g := &out[len(out)-1]
		k := 0
		for k < len(g.sizes) && (g.sizes[k].gpu != res.GPUFrames || g.sizes[k].host != res.HostFrames) {
			k++
		}
		if k == len(g.sizes) {
			g.sizes = append(g.sizes, sizeGroup{gpu: res.GPUFrames, host: res.HostFrames})
		}
		g.sizes[k].rows = append(g.sizes[k].rows, row{res, labels[i]})
	}
	return out
}

// maxLabel bounds a policy's label in tables and charts.
const maxLabel = 28

// labels are the short names of the results' policies: different policies get
// different ones, also where their long names begin alike.
func (r *Report) labels() []string {
	out := make([]string, len(r.Results))
	owner, label := map[string]string{}, map[string]string{} // label -> name, name -> label
	for i := range r.Results {
		name := r.Results[i].Policy
		if i < len(r.Labels) && r.Labels[i] != "" {
			name = r.Labels[i]
		}
		name = Printable(name)
		if label[name] == "" {
			short := shorten(name, maxLabel)
			for n := 2; owner[short] != ""; n++ { // ends: each round tries another number
				suffix := fmt.Sprintf(" #%d", n)
				short = shorten(name, maxLabel-len(suffix)) + suffix
			}
			owner[short], label[name] = name, short
		}
		out[i] = label[name]
	}
	return out
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if chars := []rune(s); len(chars) > n {
		return string(chars[:n-1]) + "…"
	}
	return s
}

// policy pairs a label with its canonical form.
type policy struct{ Label, Canonical string }

// policies lists each policy once, in order.
func (r *Report) policies() []policy {
	var out []policy
	seen := map[policy]bool{}
	labels := r.labels()
	for i := range r.Results {
		p := policy{labels[i], Printable(r.Results[i].Policy)}
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// fallback is a placer's report that tells whether what it learnt is trusted.
type fallback interface {
	Fallback() bool
	String() string
}

// explained is a placer's report that says in a sentence what it decided.
type explained interface{ Explain() string }

// placerNote is what a reader should know of a placer's report, or nothing: what
// it decided, or that it does not trust what it learnt and goes by a substitute.
func placerNote(report any) string {
	switch r := report.(type) {
	case explained:
		return r.Explain()
	case fallback:
		if r.Fallback() {
			reason, _, _ := strings.Cut(r.String(), ";")
			return reason
		}
	}
	return ""
}

// notes has a line for each policy whose placer has something to say: the first
// such result, and how many more.
func (r *Report) notes() []string {
	var out []string
	texts, counts, labels := map[string]string{}, map[string]int{}, r.labels()
	for i := range r.Results {
		account := placerNote(r.Results[i].Placer)
		if account == "" {
			continue
		}
		label := labels[i]
		if counts[label]++; counts[label] == 1 {
			out = append(out, label)
			texts[label] = fmt.Sprintf("%s at %s: %s", label, sizeShort(&r.Results[i]), account)
		}
	}
	for i, label := range out {
		out[i] = texts[label]
		if more := counts[label] - 1; more > 0 {
			out[i] += fmt.Sprintf(" (and in %s)", counted(uint64(more), "more result"))
		}
	}
	return out
}

// sizeShort names a pair of sizes within a sentence.
func sizeShort(r *sim.Result) string {
	return fmt.Sprintf("%s + %s", units.FormatCount(uint64(r.GPUFrames)), counted(uint64(r.HostFrames), "frame"))
}

// tierText describes one tier's size in frames and bytes.
func tierText(frames int, pageSize uint64) string {
	if frames == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s)", counted(uint64(frames), "frame"), bytesText(uint64(frames), pageSize))
}

// bytesText is the size of n pages.
func bytesText(n, pageSize uint64) string {
	over, size := bits.Mul64(n, pageSize)
	if over != 0 {
		return "over 16EiB"
	}
	return units.FormatBytes(size)
}

// identity says what was read and how: format, compression, order.
func identity(t sim.TraceInfo) string {
	parts := []string{"format " + t.Format}
	if t.Compression != "" {
		parts = append(parts, t.Compression)
	}
	if t.Order != "" {
		parts = append(parts, "order "+t.Order)
	}
	return strings.Join(parts, ", ")
}

// volume says how much a trace asks for.
func volume(t sim.TraceInfo) string {
	s := fmt.Sprintf("%s to %s of %s (%s)", accesses(t.Accesses),
		counted(uint64(t.Pages), "distinct page"), units.FormatBytes(t.PageSize), bytesText(uint64(t.Pages), t.PageSize))
	if t.Writes > 0 {
		s += ", " + counted(t.Writes, "write")
	}
	if t.Prefetches > 0 {
		s += ", " + counted(t.Prefetches, "prefetch record")
	}
	if t.Requests > 0 {
		s += ", " + counted(t.Requests, "request")
	}
	return s
}

// counted writes a count of things.
func counted(n uint64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return units.FormatCount(n) + " " + thing
}

// accesses is counted for a word with a plural of its own.
func accesses(n uint64) string {
	if n == 1 {
		return "1 access"
	}
	return units.FormatCount(n) + " accesses"
}

// seeds lists the seeds used, normally one.
func (r *Report) seeds() string {
	var out []string
	seen := map[uint64]bool{}
	for i := range r.Results {
		if s := r.Results[i].Seed; !seen[s] {
			seen[s] = true
			out = append(out, fmt.Sprint(s))
		}
	}
	return strings.Join(out, ", ")
}

// modelName is the preset of the modelled times, or "".
func (r *Report) modelName() string {
	for i := range r.Results {
		if m := r.Results[i].Model; m != "" {
			return m
		}
	}
	return ""
}

// drivesOnlyText warns of a model that knows no GPU.
const drivesOnlyText = "the model describes drives alone: hits and moves between GPU and host memory cost nothing in it"

func (r *Report) drivesOnly() bool { return r.Model != nil && r.Model.GPU == nil }

// incomplete says whether any result was cut short.
func (r *Report) incomplete() bool {
	for i := range r.Results {
		if !r.Results[i].Complete {
			return true
		}
	}
	return r.Interrupted
}

// sortedNames are the keys of a map of the model.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
