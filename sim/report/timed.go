package report

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/sim/timed"
)

func hasTimed(r *sim.Result) bool { return r.Timed != nil }

// timedColumns are the quantities of a replay in virtual time.
var timedColumns = []column{
	{[2]string{"virtual", "time"}, "modelled, not measured: the time of the trace and a flush, simulated access by access in the model's machine, with so many " +
		"accesses in flight", hasTimed,
		func(r *sim.Result) string {
			if r.Timed == nil {
				return none
			}
			return seconds(r.Timed.Seconds)
		}},
	{[2]string{"", "bottleneck"}, "what was busy nearly all of the virtual time; \"in flight\": nothing was, so that more accesses in flight would be faster", hasTimed,
		func(r *sim.Result) string {
			if r.Timed == nil {
				return none
			}
			return r.Timed.Bottleneck
		}},
}

// timedHead says, next to the model, what the two times of a result are.
func (r *Report) timedHead() string {
	for i := range r.Results {
		if t := r.Results[i].Timed; t != nil {
			return fmt.Sprintf("modelled time: closed form, the busiest part; virtual time: simulated, %s in flight by path %s",
				accesses(uint64(t.InFlight)), t.Path)
		}
	}
	return ""
}

// timedDetail says where the virtual time of each result went.
func (r *Report) timedDetail(b *bufio.Writer) {
	labels := r.labels()
	head := "\nvirtual time in detail, modelled\n"
	for i := range r.Results {
		res := &r.Results[i]
		t := res.Timed
		if t == nil {
			continue
		}
		fmt.Fprint(b, head)
		head = ""
		fmt.Fprintf(b, "  %s at %s: %s", labels[i], sizeShort(res), seconds(t.Seconds))
		if t.FlushSeconds > 0 {
			fmt.Fprintf(b, ", of which %s a flush", seconds(t.FlushSeconds))
		}
		fmt.Fprintf(b, "; %.3g M accesses/s; closed form of the same moves %s\n", t.AccessesPerSecond/1e6, seconds(t.BoundSeconds))
		for _, l := range t.Accesses {
			latencyLine(b, l)
		}
		fmt.Fprintf(b, "    busy         %s\n", usageText(t.Usage))
		fmt.Fprintf(b, "    takes        %s\n", billText(&t.Bill))
	}
}

func latencyLine(b *bufio.Writer, l timed.Latency) {
	ns := func(v int64) string { return seconds(float64(v) * 1e-9) }
	fmt.Fprintf(b, "    %-11s  %s, mean %s, p50 %s, p99 %s, max %s\n", l.Name, units.FormatCount(l.Count), seconds(l.MeanNS*1e-9), ns(l.P50NS), ns(l.P99NS), ns(l.MaxNS))
}

// usageText names the busiest resources.
func usageText(list []timed.Usage) string {
	var out []string
	for _, u := range list[:min(len(list), 5)] {
		out = append(out, fmt.Sprintf("%s %.0f %%", u.Name, 100*u.Share))
	}
	if len(out) == 0 {
		return none
	}
	return strings.Join(out, ", ")
}

// billText says what the path takes of the processors.
func billText(b *timed.Bill) string {
	who := map[string]string{"gpu": "GPU", "cpu": "CPU"}[b.Initiator]
	out := []string{who + " threads initiate"}
	if b.LogicalCPUs != nil {
		cpus := "logical CPUs"
		if *b.LogicalCPUs == 1 {
			cpus = "logical CPU"
		}
		out = append(out, fmt.Sprintf("%g %s", *b.LogicalCPUs, cpus))
	}
	if b.GPUThreads != nil {
		out = append(out, counted(uint64(*b.GPUThreads), "GPU thread"))
	}
	if b.GPUShare != nil {
		out = append(out, fmt.Sprintf("%.3g %% of the GPU", 100**b.GPUShare))
	}
	if b.Ends == "host" {
		out = append(out, "payload ends in host memory and is copied")
	}
	return strings.Join(out, ", ")
}

// pathFigures are the model's figures of the paths that results were timed by.
func (r *Report) pathFigures() (out []modelFigure) {
	if r.Model == nil {
		return nil
	}
	used := map[string]bool{}
	for i := range r.Results {
		if t := r.Results[i].Timed; t != nil {
			used[t.Path] = true
		}
	}
	for _, f := range r.Model.Figures() {
		rest, isPath := strings.CutPrefix(f.Where, "paths.")
		name, what, _ := strings.Cut(rest, ".")
		if isPath && used[name] {
			out = append(out, modelFigure{"path " + name, what, strconv.FormatFloat(f.Value, 'g', -1, 64), string(f.Kind), f.Source})
		}
	}
	return out
}
