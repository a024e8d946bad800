package main

import (
	"fmt"
	"slices"

	"github.com/tritier/tritier/internal/units"
)

// aboutBundled says what is replayed when no trace is named.
const aboutBundled = "Bundled trace: KV-cache blocks that conversations asked of an LLM server (Mooncake, FAST 2025, Apache-2.0)."

// about says what the reader of the report is looking at.
func (r *replayer) about() string {
	switch {
	case len(r.paths) == 0 && !r.sizedBy:
		return aboutBundled + "\n" +
			"T1 is 5 % of its distinct pages, T2 four times T1. Yours: tritier replay --gpu-mem 16GiB --host-mem 64GiB TRACE"
	case len(r.paths) == 0:
		return aboutBundled
	case !r.sizedBy:
		return "No sizes were given: T1 is " + aboutDefault(r.sized) + ", T2 four times T1."
	}
	return ""
}

// aboutDefault says what the default size of T1 was: the share of the pages, or
// the least that makes sense where that is more.
func aboutDefault(sizes []defaultSize) string {
	raised := func(s defaultSize) bool { return s.gpu > s.pages*defaultGPUShare/100 }
	share := fmt.Sprintf("%d %% of the trace's distinct pages", defaultGPUShare)
	switch {
	case !slices.ContainsFunc(sizes, raised):
		return share
	case len(sizes) > 1:
		return fmt.Sprintf("%s, but at least %d frames, or all pages of a trace that has fewer", share, smallestDefault)
	case sizes[0].pages <= smallestDefault:
		return fmt.Sprintf("as large as the trace's %s, since %d %% of so few are no useful size", plural(uint64(sizes[0].pages), "distinct page"), defaultGPUShare)
	}
	return fmt.Sprintf("%d frames, the smallest default, since %d %% of the trace's %s distinct pages are fewer",
		sizes[0].gpu, defaultGPUShare, units.FormatCount(uint64(sizes[0].pages)))
}
