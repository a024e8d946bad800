package report

import (
	"math/rand/v2"
	"testing"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim"
	"github.com/tritier/tritier/tier"
)

// sampleTrace is a trace with requests and writes, so that every column shows.
var sampleTrace = sim.TraceInfo{Name: "traces/conversation.jsonl.zst", Format: "mooncake", Compression: "zstd", Order: "merged",
	PageSize: 64 << 10, Accesses: 1_000_000, Pages: 182_790, Requests: 12_031, Writes: 40_000}

// samplePolicies pairs labels with canonical forms; one label is too long for
// a table.
var samplePolicies = []policy{
	{"bypass", "bypass{t1=clock,t2=fifo,t2copy=drop}"},
	{"lru", "tier-order{t1=lru,t2=lru,t2copy=drop}"},
	{"gmt-reuse", "gmt-reuse{t1=clock,t2=fifo,k=16,t2copy=drop,vtd=10240}"},
	{"tier-order{t1=s3-fifo(small=10),t2=s3-fifo(small=20)}", "tier-order{t1=s3-fifo(small=10),t2=s3-fifo(small=20),t2copy=drop}"},
	{"arc", "tier-order{t1=arc,t2=arc,t2copy=drop}"},
}

func pointer[V any](v V) *V { return &v }

// sampleResult makes counts that add up, different for each number.
func sampleResult(number int, policy string, gpu, host int) sim.Result {
	n := sampleTrace.Accesses
	c := tier.Counters{Accesses: n, T1Hits: n/5 + uint64(gpu)*4 + uint64(number)*20_000, T2Hits: uint64(host) * 3, Overwrites: 10_000,
		Delayed: 7, Keeps: 3, CopiesSaved: 2, T2Evictions: 11}
	c.T3Fetches = n - c.T1Hits - c.T2Hits - c.Overwrites
	c.Evictions = c.T3Fetches + c.T2Hits - uint64(gpu)
	c.Bypasses = c.Evictions / uint64(number+2)
	c.Demotions = c.Evictions - c.Bypasses
	c.Writebacks, c.FinalDirty = 30_000-uint64(number), 123
	r := sim.Result{Trace: sampleTrace, Policy: policy, GPUFrames: gpu, HostFrames: host, Seed: 1, Complete: true, Counters: c,
		SSDReads: c.SSDReads(), BoundReads: pointer(n/3 - uint64(gpu+host)), PrefixHits: pointer(c.T1Hits / 2), Model: "h200-4xgen5",
		ModelledSeconds: pointer(float64(c.T3Fetches) * 1.3e-6), ModelledSerial: pointer(float64(c.T3Fetches) * 2e-6),
		ModelledEdges: []servicetime.EdgeTime{{Name: servicetime.EdgeT3Read, Count: c.T3Fetches, Bytes: c.T3Fetches << 16,
			Seconds: float64(c.T3Fetches) * 1.3e-6, Bound: servicetime.BoundBandwidth}}}
	if policy == samplePolicies[2].Canonical {
		r.Placer = placement.ReuseReport{Fits: 1, Last: placement.ReuseFit{Reason: "R2 0.41 is below 0.8"}, Samples: 1024}
	}
	return r
}

// sample is a report over some sizes.
func sample(t *testing.T, sizes [][2]int) *Report {
	t.Helper()
	m, err := servicetime.Load("h200-4xgen5")
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Command: "tritier replay --gpu-frames 9139 'traces/conversation.jsonl.zst'", Model: m}
	for i, p := range samplePolicies {
		for _, s := range sizes {
			r.Results = append(r.Results, sampleResult(i, p.Canonical, s[0], s[1]))
			r.Labels = append(r.Labels, p.Label)
		}
	}
	return r
}

var oneSize = [][2]int{{9_139, 36_556}}

var manySizes = [][2]int{{1_000, 4_000}, {2_000, 8_000}, {4_000, 16_000}, {9_139, 36_556}, {20_000, 80_000}}

// smallRandom makes reports of any shape, for tests that hold for all.
func smallRandom(rng *rand.Rand) *Report {
	r := &Report{About: "random"}
	for range rng.IntN(6) {
		res := sim.Result{Trace: sampleTrace, Policy: "p", GPUFrames: 1 + rng.IntN(3), HostFrames: rng.IntN(3), Complete: rng.IntN(2) == 0}
		res.Trace.Accesses = uint64(rng.IntN(3))
		res.T1Hits, res.T3Fetches, res.Overwrites = rng.Uint64N(3), rng.Uint64N(1<<40), rng.Uint64N(3)
		res.Accesses = res.T1Hits + res.T3Fetches + res.Overwrites
		if rng.IntN(2) == 0 {
			res.BoundReads = pointer(rng.Uint64N(3))
			res.ModelledSeconds = pointer(rng.Float64() * float64(rng.IntN(1000)))
		}
		r.Results = append(r.Results, res)
	}
	return r
}
