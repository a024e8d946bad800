package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
)

// defaultPolicies are what replay compares when nobody says: the placers
// (tier-order has LRU in both tiers), then other evictors in both tiers from the
// simplest to the cleverest.
var defaultPolicies = []string{"bypass", "tier-order", "random{}", "gmt-reuse", "clock", "s3-fifo", "arc", "w-tinylfu"}

// namedPolicy is a policy and what the user called it.
type namedPolicy struct {
	spec  placement.Spec
	label string
}

// readPolicies reads the values of --policy; each may hold several policies
// separated by commas.
func readPolicies(values []string) ([]namedPolicy, error) {
	var out []namedPolicy
	for _, v := range values {
		parts, err := splitPolicies(v)
		if err != nil {
			return nil, fmt.Errorf("--policy: %w", err)
		}
		for _, text := range parts {
			spec, err := placement.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("--policy: %w", err)
			}
			out = append(out, namedPolicy{spec, text})
		}
	}
	return out, nil
}

// splitPolicies parts a list at the commas outside of braces and parentheses.
func splitPolicies(list string) ([]string, error) {
	var out []string
	depth, from := 0, 0
	for i := range len(list) + 1 {
		if i < len(list) && (list[i] != ',' || depth > 0) {
			switch list[i] {
			case '{', '(':
				depth++
			case '}', ')':
				depth--
			}
			continue
		}
		part := strings.TrimSpace(list[from:i])
		if part == "" {
			return nil, fmt.Errorf("%q names no policy between its commas", list)
		}
		out = append(out, part)
		from = i + 1
	}
	return out, nil
}

// job is a simulation and where it belongs in the report.
type job struct {
	sim.Job
	label string
}

// makeJobs pairs every policy with every size, sizes innermost. Of the default
// policies, which nobody asked for by name, those that make no sense at a size
// are left out there; skipped says which and why. Of the others each one that
// makes no sense is named.
func makeJobs(s *settings, pages int, pageSize uint64) (jobs []job, skipped []string, err error) {
	var wrong []error
	for _, p := range s.policies {
		named := false
		for _, pair := range s.pairs {
			gpu, host, err := pair.framesOf(pages, pageSize)
			if err != nil {
				return nil, nil, err
			}
			switch tooSmall := tooSmallFor(p.spec, gpu, host); {
			case tooSmall != nil && s.byDefault:
				skipped = append(skipped, tooSmall.Error())
				continue
			case tooSmall != nil && !named:
				wrong, named = append(wrong, fmt.Errorf("--policy %s: %s%s", p.label, tooSmall.Error(), pair.hint(tooSmall, pages))), true
			}
			jobs = append(jobs, job{sim.Job{Policy: p.spec, GPUFrames: gpu, HostFrames: host, Seed: s.seed}, p.label})
		}
	}
	return jobs, skipped, errors.Join(wrong...)
}

// hint says which share of the pages a size would have to be.
func (p sizePair) hint(e *placement.SizeError, pages int) string {
	size := p.gpu
	if e.Tier == "T2" {
		size = p.host
	}
	if !size.share || e.Min > pages {
		return ""
	}
	return fmt.Sprintf(", which is %.3g%% of the trace's %s", leastPercent(e.Min, pages), plural(uint64(pages), "distinct page"))
}

// saneForAll is a tier size that is large enough for every policy.
const saneForAll = 1024

// tooSmallFor says why a policy makes no sense at these sizes, or nil.
func tooSmallFor(spec placement.Spec, gpu, host int) *placement.SizeError {
	if gpu >= saneForAll && (host == 0 || host >= saneForAll) {
		return nil
	}
	var wrong *placement.SizeError
	if _, err := spec.Build(placement.Env{T1Frames: min(gpu, saneForAll), T2Frames: min(host, saneForAll)}); errors.As(err, &wrong) {
		return wrong
	}
	return nil
}

// simJobs are the jobs without their labels.
func simJobs(jobs []job) []sim.Job {
	out := make([]sim.Job, len(jobs))
	for i, j := range jobs {
		out[i] = j.Job
	}
	return out
}
