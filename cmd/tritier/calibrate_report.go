package main

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tritier/tritier/copyeng"
	"github.com/tritier/tritier/internal/units"
)

// report writes what was measured. Without results it writes nothing.
func (f *calibrateFlags) report(out io.Writer, list []*calibrated) error {
	if len(list) == 0 {
		return nil
	}
	b := bufio.NewWriter(out)
	var err error
	if f.json {
		all := []map[string]any{}
		for _, x := range list {
			all = append(all, x.json())
		}
		err = writeJSON(b, map[string]any{"gpus": all})
	} else {
		for i, x := range list {
			if i > 0 {
				_, _ = fmt.Fprintln(b) // Flush reports errors
			}
			err = x.text(b)
			if err != nil {
				break
			}
		}
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// text is the summary for people.
func (x *calibrated) text(w io.Writer) error {
	f := x.options
	_, _ = fmt.Fprintln(w, gpuLine(x.dev)) // the caller's buffer keeps errors
	_, _ = fmt.Fprintf(w, "calibrated in %s: medians of %s over %s, seed %d; every path to and from the device was compared with what was sent\n",
		units.FormatDuration(x.took), plural(uint64(f.runs), "run"), units.FormatBytes(uint64(f.bytes)), f.seed)
	_, _ = fmt.Fprintf(w, "link: %.1f GB/s to the device, %.1f GB/s to the host, %.1f GB/s both ways at once (large pinned copies)\n\n",
		x.cal.Link.ToDevice, x.cal.Link.ToHost, x.cal.Link.BothWays)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "direction\tpage\tone page\tmost pages\tpath by number of pages")
	for i, c := range x.chosen {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.direction, shortBytes(c.page), edgeTime(&x.cal.Curves[i], 0), edgeRate(&x.cal.Curves[i]), c.text())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "\nsaved to %s\n", x.file)
	if f.out != "" {
		_, _ = fmt.Fprintf(w, "programs do not look there by themselves: tritier bench copy --calibration %s\n", shellQuote(x.file))
	}
	if x.preset != "" {
		_, _ = fmt.Fprintf(w, "preset %s: tritier replay --model %s\n", presetName(x.preset), shellQuote(x.preset))
	}
	return nil
}

func edgeTime(c *copyeng.Curve, i int) string {
	_, us := fastest(c, i)
	return fmt.Sprintf("%.1f us", us)
}

// edgeRate is the rate at the largest number of pages that was measured.
func edgeRate(c *copyeng.Curve) string {
	last := len(c.Pages) - 1
	_, us := fastest(c, last)
	moved := float64(c.Page) * float64(c.Pages[last])
	if c.Direction == bothWaysName {
		moved *= 2
	}
	return fmt.Sprintf("%s: %.1f GB/s", units.FormatCount(uint64(c.Pages[last])), moved/us/1e3)
}

// bothWaysName is the direction of curves of exchanges.
const bothWaysName = "both-ways"

// json is the result for programs, the whole calibration included.
func (x *calibrated) json() map[string]any {
	curves := []map[string]any{}
	for i, c := range x.cal.Curves {
		curves = append(curves, map[string]any{
			"direction": c.Direction, "page_bytes": c.Page, "pages": c.Pages, "us": c.Micros, "chosen": x.chosen[i].spans,
		})
	}
	m := map[string]any{
		"gpu": gpuIdentityOf(x.dev), "driver": x.cal.Driver, "measured": x.cal.Measured.Format(time.RFC3339), "seconds": x.took.Seconds(),
		"runs": x.options.runs, "bytes": uint64(x.options.bytes), "seed": x.options.seed, "verified": true,
		"link": map[string]any{
			"to_device_gbps": x.cal.Link.ToDevice, "to_host_gbps": x.cal.Link.ToHost, "both_ways_gbps": x.cal.Link.BothWays,
		},
		"curves": curves, "file": x.file,
	}
	if x.preset != "" {
		m["preset"] = x.preset
	}
	return m
}
