package devicetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/devicerig"
)

// mutant is a devicerig.Mutant in short.
type mutant struct {
	name     string
	file     string
	old, new string
	build    build
	args     string
}

const (
	busy   = "deadline=5000 depth=8 cq=16 cids=12 warps=6 rounds=300 reorder=1 stall=2"
	warps  = "deadline=5000 depth=8 cq=16 cids=12 warps=2 lanes=4 rounds=60 reorder=1 stall=2"
	losing = "depth=8 cq=32 cids=20 warps=6 rounds=120 drop=15 late=10 losses=16 deadline=20"
)

var mutants = []mutant{
	{"the doorbell is not a release", "submit.cuh", "store_release_sys(p.sq_doorbell", "store_relaxed_sys(p.sq_doorbell", threads, busy},
	{"the ready mark is not a release", "submit.cuh", "store_release_gpu(&p.ready[slot]", "store_relaxed_gpu(&p.ready[slot]", threads, busy},
	{"ready marks are not acquired", "submit.cuh", "load_acquire_gpu(&p.ready", "load_relaxed_gpu(&p.ready", threads, "deadline=5000 depth=64 cq=64 cids=60 warps=16 rounds=200"},
	{"the entry comes after the doorbell", "submit.cuh", "    if (have) {\n        write_entry(p.sq + static_cast<uint64_t>(slot) * 64, c, wire_cid(p, *h), p.nsid);\n    }\n    if (!ring_own(g, p, first, fit)) {",
		"    if (have && fit == 9999) {\n    }\n    bool own = ring_own(g, p, first, fit);\n    relax();\n    if (have) {\n        write_entry(p.sq + static_cast<uint64_t>(slot) * 64, c, wire_cid(p, *h), p.nsid);\n    }\n    if (!own) {", plain, busy},
	{"the phase is fixed", "poll.cuh", "((lap_of(n, p.cq_depth) & 1) ^ 1)", "1", plain, busy},
	{"the completion is not acquired", "poll.cuh", "load_acquire_sys(reinterpret_cast<uint32_t*>(cqe + 12))", "load_relaxed_sys(reinterpret_cast<uint32_t*>(cqe + 12))", threads, busy},
	{"a time-out frees the command id", "poll.cuh", "uint32_t abandoned = h.word ^ kInFlight ^ kAbandoned;", "uint32_t abandoned = kFree;", plain, losing},
	{"a late completion is not taken for one", "poll.cuh", "old == (kAbandoned | gen)", "old == kAbandoned + 77", plain, losing},
	{"the whole depth is used", "submit.cuh", "used >= p.depth - 1 ? 0 : static_cast<uint32_t>(p.depth - 1 - used)", "used >= p.depth ? 0 : static_cast<uint32_t>(p.depth - used)", plain, "deadline=3000 depth=4 cq=64 cids=60 warps=12 rounds=300 reorder=1 stall=2"},
	{"completions free slots", "poll.cuh", "free_slots(p, head + total);", "store_release_gpu(&p.q->freed, load_relaxed_gpu(&p.q->freed) + total);", plain, "deadline=5000 depth=4 cq=64 cids=60 warps=8 rounds=200 reorder=1 stall=1 torn=1"},
	{"the SQ head is believed", "poll.cuh", "uint32_t more = sq_head >= at ? sq_head - at : sq_head + p.depth - at;", "uint32_t more = sq_head;", plain, busy},
	{"a wake-up in ringing is lost", "submit.cuh", "        ring(g, p, first + fit);", "        ring_ready(g, p);", plain, "deadline=3000 depth=16 cq=64 cids=60 warps=8 rounds=1 repeat=300"},
	{"a part's error hides one that was lost", "io.cuh", "lowest_bit(behind != 0 ? behind : failed)", "lowest_bit(failed)", plain, "mode=arguments"},
	{"the status is ignored", "poll.cuh", "*status = word >> 16;", "*status = kOk;", plain, busy + " fail=3"},
	{"the status loses a bit", "poll.cuh", "uint32_t status = dword3 >> 17;", "uint32_t status = dword3 >> 17 & 0x3fff;", plain, busy + " fail=2"},
	{"the doorbell goes back", "submit.cuh", "slot_of(rung + n, p.depth)", "slot_of(rung + n - (n > 1 ? 2 : 0), p.depth)", plain, warps},
	{"the doorbell leaves the range", "submit.cuh", "slot_of(rung + n, p.depth)", "slot_of(rung, p.depth) + n", plain, busy},
	{"tickets are cut to 32 bits", "submit.cuh", "*tickets = load_relaxed_gpu(&p.q->tickets);", "*tickets = static_cast<uint32_t>(load_relaxed_gpu(&p.q->tickets));", plain, busy + " start=4294967200"},
	{"a lap lasts 32 bits", "poll.cuh", "lap_of(n, p.cq_depth)", "lap_of(static_cast<uint32_t>(n), p.cq_depth)", plain, "deadline=5000 depth=8 cq=7 cids=6 warps=6 rounds=300 cq_start=4294967200"},
	{"ids have no generation", "poll.cuh", "return static_cast<uint32_t>(lap) & ", "return 0 & static_cast<uint32_t>(lap) & ", plain, "deadline=5000 depth=4 cq=4 cids=2 warps=6 rounds=300 twice=2 reorder=1"},
	{"completions are not returned", "poll.cuh", "if (lap_of(head, quarter) != lap_of(before, quarter)) {", "if (head == before) {", plain, busy},
	{"completions are returned before they are read", "poll.cuh", "store_release_sys(p.cq_doorbell, slot_of(head, p.cq_depth));", "store_release_sys(p.cq_doorbell, slot_of(head + 1, p.cq_depth));", plain, busy},
	{"lanes without a command skip a vote", "submit.cuh", "uint32_t before = bits_below(g.ballot(want), g.lane());", "uint32_t before = want ? bits_below(g.ballot(want), g.lane()) : 0;", plain, warps},
	{"all ones is a completion", "poll.cuh", "gone = dword3 == 0xffffffffu;", "gone = false;", plain, "deadline=5000 depth=8 cq=32 cids=20 warps=6 rounds=500 gone_after=200"},
	{"a failed queue goes on", "port.cuh", "why = load_relaxed_gpu(&p.q->failed);", "why = kOk;", plain, "deadline=20000 depth=8 cq=32 cids=20 warps=6 rounds=500 gone_after=200"},
	{"dwords are not zeroed", "sqe.cuh", "make_uint4(c.opcode | cid << 16, nsid, 0, 0)", "make_uint4(c.opcode | cid << 16, nsid, cid, 0)", plain, busy},
	{"PRP2 is never a list", "sqe.cuh", "} else if (pages > 2) {", "} else if (pages > 512) {", plain, busy},
	{"lists start at their first entry", "sqe.cuh", "b.list_bytes + 8 * first;", "b.list_bytes;", plain, busy},
	{"the LBA is cut", "sqe.cuh", "low(c.lba), high(c.lba)", "low(c.lba), 0", plain, busy + " lba=4294967200"},
	{"an answer's owner is not waited for", "request.cuh", "(mark ^ kTaken)", "mark", plain, "mode=requests depth=2 warps=6 rounds=300"},
	{"the words of a withdrawal are in no order", "request.cuh", "    fence_sys();\n", "", plain, "mode=requests depth=16 warps=2 rounds=60000 withdraw=1 deadline=20000"},
	{"nobody asks whether a request has begun", "request.cuh", "if (done != mark && done != (mark ^ kBegun)) {", "if (done != mark) {", plain, "mode=requests depth=4 warps=6 rounds=300 withdraw=1 deadline=20000"},
	{"a request is not released", "request.cuh", "store_release_sys(&s->sequence, request_mark(n));", "store_relaxed_sys(&s->sequence, request_mark(n));", threads, "mode=requests depth=4 warps=6 rounds=100"},
}

// widen makes a thread yield when it has got a lock: another one may run while a lock is
// held, as it does on a GPU, and hardly ever on a machine with few cores.
func widen(t *testing.T, file, s string) string {
	t.Helper()
	if file != "port.cuh" {
		return s
	}
	const got = "    return from_leader(g, old) == 0;"
	if strings.Count(s, got) != 1 {
		t.Fatal("try_lock has changed: the mutants need an update")
	}
	return strings.Replace(s, got, "    if (old == 0) {\n        relax();\n    }\n"+got, 1)
}

// TestMutants: the rig notices each mistake within a few seeds.
func TestMutants(t *testing.T) {
	m := devicerig.Mutants{Rig: rig, Edit: widen, Attempt: func(t *testing.T, bin, args string, seed uint64) error {
		return trial(t, bin, 20*time.Second, append(strings.Fields(args), "quick=1", fmt.Sprint("seed=", seed)))
	}, Control: func(t *testing.T, bin, args string) error {
		return trial(t, bin, time.Minute, append(strings.Fields(args), "seed=1"))
	}}
	for _, x := range mutants {
		m.List = append(m.List, devicerig.Mutant{Name: x.name, File: x.file, Old: x.old, New: x.new, Build: x.build, Args: x.args})
	}
	m.Run(t)
}
