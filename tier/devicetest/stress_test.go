package devicetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// scenarios are engines in which nothing may go wrong but what they inject,
// with the arguments of rig.cpp. Each is one hazard taken alone; random ones
// mix them.
var scenarios = []struct{ name, args string }{
	{"one frame, no T2", "frames=1 t2=0 spares=1 groups=6 rounds=120"},
	{"one frame, one slot, one spare", "frames=1 t2=1 spares=1 placer=1 groups=6 rounds=120 interrupts=8"},
	{"tier-order", "frames=2 t2=3 spares=2 placer=1 groups=6 rounds=150 interrupts=10"},
	{"random", "frames=3 t2=2 spares=2 placer=2 t1=1 groups=6 rounds=150 interrupts=10"},
	{"gmt-reuse", "frames=3 t2=3 spares=2 placer=3 groups=6 rounds=150 interrupts=10"},
	{"the order's log is small", "pages=40 frames=2 t2=12 spares=2 placer=1 log=16 groups=6 rounds=300 interrupts=10"},
	{"reads fail", "frames=2 t2=2 spares=1 placer=2 groups=6 rounds=120 fail_reads=3 interrupts=10"},
	{"writes fail", "frames=2 t2=2 spares=1 placer=1 groups=6 rounds=120 fail_writes=3 interrupts=10"},
	{"everything fails often", "frames=3 t2=3 spares=2 placer=3 groups=6 rounds=120 fail_reads=2 fail_writes=2"},
	{"flush all the time", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=120 flush=1 fail_writes=6 interrupts=10"},
	{"warps", "frames=3 t2=3 spares=2 placer=1 groups=3 lanes=4 rounds=60 interrupts=20"},
	{"a full warp on one frame", "frames=1 t2=0 spares=1 pages=40 groups=1 lanes=32 rounds=12"},
	{"a full warp on one frame and a slot", "frames=1 t2=1 spares=1 placer=1 pages=40 groups=2 lanes=16 rounds=12"},
	{"warps, the log is small", "pages=40 frames=2 t2=12 spares=2 placer=1 log=16 groups=3 lanes=4 rounds=80"},
	{"more groups than frames hold pins", "frames=2 t2=2 spares=2 placer=1 groups=6 rounds=80 hold=4 pin_deadline=5"},
	{"a drive that loses buffers", "frames=3 t2=3 spares=30 placer=1 groups=4 rounds=60 fail_reads=6 fail_writes=6 lose=8 deadline=2000"},
	{"pages as plain memory", "alone=1 frames=2 t2=2 spares=3 placer=1 groups=4 rounds=150 interrupts=6"},
	{"past 2^32", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=120 start=4294967290 interrupts=10"},
	{"past 2^31", "frames=3 t2=6 spares=2 log=16 placer=1 groups=6 rounds=120 start=2147483640 interrupts=10"},
	{"copies", "frames=3 t2=6 spares=2 placer=1 groups=6 rounds=150 keep=1 interrupts=10"},
	{"one slot, one copy", "frames=1 t2=1 spares=1 placer=1 keep=1 groups=6 rounds=120 interrupts=8"},
	{"copies and warps", "frames=3 t2=5 spares=2 placer=3 groups=3 lanes=4 rounds=60 keep=1 interrupts=10"},
	{"copies, the log is small", "pages=40 frames=4 t2=12 spares=2 placer=1 log=16 keep=1 groups=6 rounds=300 interrupts=10"},
	{"copies and failing drives", "frames=3 t2=4 spares=2 placer=2 keep=1 groups=6 rounds=120 fail_reads=3 fail_writes=3 flush=6"},
	{"copies beside plain memory", "alone=1 frames=3 t2=4 spares=3 placer=1 keep=1 groups=4 rounds=150 interrupts=6"},
	{"recorded", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=150 records=64 interrupts=10"},
	{"recorded and sampled", "frames=3 t2=3 spares=2 placer=3 groups=3 lanes=4 rounds=60 records=64 interrupts=10"},
	{"nobody takes the records", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=80 records=64 drain=0 deadline=40000"},
	{"told of", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=150 events=65536 interrupts=10 fail_reads=9 fail_writes=9 flush=6"},
	{"told of, warps", "frames=3 t2=3 spares=2 placer=3 keep=1 groups=3 lanes=4 rounds=60 events=65536 every=2 interrupts=10"},
	{"told of, the ring is small", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=150 events=64 interrupts=10"},
	{"a drive that answers late", "frames=3 t2=3 spares=2 placer=1 groups=6 rounds=100 fail_reads=6 fail_writes=6 lose=1 late=1 flush=6"},
	{"a drive that answers late, copies and warps", "frames=3 t2=4 spares=2 placer=2 keep=1 groups=3 lanes=4 rounds=50 fail_reads=5 fail_writes=5 lose=2 late=1 flush=6"},
	{"moves by request", "frames=3 t2=4 spares=3 placer=1 groups=6 rounds=120 mover=1 flush=6 interrupts=10"},
	{"moves by request, copies and warps", "frames=3 t2=4 spares=2 placer=3 keep=1 groups=3 lanes=4 rounds=50 mover=1 flush=6"},
	{"moves by request beside plain memory", "alone=1 frames=3 t2=4 spares=3 placer=1 groups=4 rounds=150 mover=1 interrupts=6"},
	{"moves by request and failing drives", "frames=3 t2=4 spares=3 placer=2 groups=6 rounds=100 mover=1 fail_reads=4 fail_writes=4 flush=6"},
	{"moves that do not end", "frames=4 t2=4 spares=6 placer=1 groups=4 rounds=60 mover=2 flush=6 deadline=40 pin_deadline=30"},
	{"moves that do not end, copies", "frames=4 t2=4 spares=6 placer=1 keep=1 groups=3 lanes=2 rounds=40 mover=2 flush=6 deadline=40 pin_deadline=30"},
	{"moves that do not end, one spare", "frames=4 t2=4 spares=1 placer=1 groups=4 rounds=60 mover=2 flush=6 deadline=40 pin_deadline=30 interrupts=4"},
	{"moves that do not end, two spares and copies", "frames=5 t2=3 spares=2 placer=1 keep=1 groups=4 rounds=60 mover=2 flush=6 deadline=40 pin_deadline=30 fail_writes=6 interrupts=4"},
	{"moves by request, a slot and a spare", "frames=1 t2=1 spares=1 placer=1 keep=1 groups=4 rounds=80 mover=1 flush=4 fail_reads=6 fail_writes=6 interrupts=4"},
	{"every buffer is lost", "frames=2 t2=1 spares=1 placer=1 groups=4 rounds=30 fail_reads=2 fail_writes=2 lose=1 deadline=20"},
}

// TestScenarios runs each hazard with a few seeds.
func TestScenarios(t *testing.T) {
	bin := program(t, plain)
	first := rand.Uint64() >> 2
	for _, s := range scenarios {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			for seed := range uint64(3) {
				args := append([]string{"mode=stress", fmt.Sprint("seed=", first+seed)}, strings.Fields(s.args)...)
				out, err := trial(t, bin, 2*time.Minute, args)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d: %s", first+seed, lastLine(out))
			}
		})
	}
}

// TestPitfalls: what must end with an error does, in time, and says the right
// things.
func TestPitfalls(t *testing.T) {
	seed := rand.Uint64() >> 2
	for _, b := range []build{plain, threads, addresses} {
		if _, err := trial(t, program(t, b), 2*time.Minute, []string{"mode=pitfalls", fmt.Sprint("seed=", seed)}); err != nil {
			t.Errorf("%s, seed %d: %v", b.Name, seed, err)
		}
	}
}

// TestHammer: the pools and T2's order alone, with many hands at them.
func TestHammer(t *testing.T) {
	seed := rand.Uint64() >> 2
	for _, b := range []build{plain, threads} {
		for _, args := range []string{"t2=1 spares=6 log=2", "t2=12 spares=2 log=16", "t2=6 spares=0 log=16", "t2=3 spares=1 log=8 start=4294967200"} {
			args := append([]string{"mode=hammer", "groups=8", "rounds=6000", "interrupts=6", fmt.Sprint("seed=", seed)}, strings.Fields(args)...)
			if _, err := trial(t, program(t, b), 2*time.Minute, args); err != nil {
				t.Errorf("%s: %v", b.Name, err)
			}
		}
	}
}

// TestRandom runs engines at random for a while, in every build.
func TestRandom(t *testing.T) {
	ms := 4000
	if testing.Short() {
		ms = 1500
	}
	for _, b := range []build{plain, threads, addresses} {
		t.Run(b.Name, func(t *testing.T) {
			seed := rand.Uint64() >> 2
			t.Logf("seed %d", seed)
			out, err := trial(t, program(t, b), 3*time.Minute, []string{"mode=random", fmt.Sprint("ms=", ms), fmt.Sprint("seed=", seed), "rounds=90"})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(lastLine(out))
		})
	}
}

// TestSanitizedScenarios runs the hazards under the sanitizers, once.
func TestSanitizedScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for _, b := range []build{threads, addresses} {
		bin := program(t, b)
		seed := rand.Uint64() >> 2
		for _, s := range scenarios {
			t.Run(b.Name+"/"+strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
				args := append([]string{"mode=stress", fmt.Sprint("seed=", seed)}, strings.Fields(s.args)...)
				if _, err := trial(t, bin, 2*time.Minute, args); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
