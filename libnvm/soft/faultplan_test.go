package soft

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/libnvm"
)

var fail = Fault{Status: libnvm.StatusUnrecoveredRead}

func plan(t testing.TB, seed uint64, rules ...Rule) *FaultPlan {
	t.Helper()
	p, err := NewFaultPlan(seed, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hits runs n reads of queue 1 and returns which were hit, counted from 1.
func hits(p *FaultPlan, n uint64) (hit []uint64) {
	for i := range n {
		c := CommandInfo{Queue: 1, Opcode: libnvm.OpRead, NSID: 1, LBA: i, Blocks: 1, Seq: i}
		if p.Command(&c) != (Fault{}) {
			hit = append(hit, i+1)
		}
	}
	return hit
}

func TestFaultRuleMatch(t *testing.T) {
	read := CommandInfo{Queue: 3, Opcode: libnvm.OpRead, NSID: 2, LBA: 100, Blocks: 8}
	admin := CommandInfo{Opcode: libnvm.AdminIdentify}
	top := CommandInfo{Queue: 1, Opcode: libnvm.OpRead, LBA: math.MaxUint64, Blocks: 8}
	for _, c := range []struct {
		name string
		rule Rule
		cmd  CommandInfo
		want bool
	}{
		{"everything", Rule{}, read, true},
		{"not admin by default", Rule{}, admin, false},
		{"admin", Rule{Admin: true}, admin, true},
		{"admin does not mean I/O", Rule{Admin: true}, read, false},
		{"queue", Rule{Queue: 3}, read, true},
		{"other queue", Rule{Queue: 2}, read, false},
		{"opcode", Rule{Opcodes: []libnvm.Opcode{libnvm.OpWrite, libnvm.OpRead}}, read, true},
		{"other opcode", Rule{Opcodes: []libnvm.Opcode{libnvm.OpWrite}}, read, false},
		{"namespace", Rule{NSID: 2}, read, true},
		{"other namespace", Rule{NSID: 1}, read, false},
		{"range before", Rule{FirstLBA: 1, LastLBA: 99}, read, false},
		{"range touches the start", Rule{FirstLBA: 1, LastLBA: 100}, read, true},
		{"range inside", Rule{FirstLBA: 103, LastLBA: 104}, read, true},
		{"range touches the end", Rule{FirstLBA: 107, LastLBA: 1000}, read, true},
		{"range behind", Rule{FirstLBA: 108, LastLBA: 1000}, read, false},
		{"range with a command without blocks", Rule{FirstLBA: 1, LastLBA: 9}, CommandInfo{Queue: 1, Opcode: libnvm.OpFlush}, false},
		{"no overflow at the end of the address space", Rule{FirstLBA: 1, LastLBA: 5}, top, false},
	} {
		c.rule.Fault = fail
		if got := plan(t, 1, c.rule).Command(&c.cmd) == fail; got != c.want {
			t.Errorf("%s: hit %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFaultRuleChoice(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		want []uint64
	}{
		{"every third", Rule{Nth: 3}, []uint64{3, 6, 9}},
		{"after four", Rule{Skip: 4, Nth: 3}, []uint64{7, 10}},
		{"two at most", Rule{Skip: 1, Limit: 2}, []uint64{2, 3}},
		{"certain", Rule{Probability: 1, Limit: 1}, []uint64{1}},
	} {
		c.rule.Fault = fail
		p := plan(t, 1, c.rule)
		if got := hits(p, 10); !slices.Equal(got, c.want) {
			t.Errorf("%s: hits %v, want %v", c.name, got, c.want)
		}
		if fired := p.Fired(); fired[0] != uint64(len(c.want)) {
			t.Errorf("%s: fired %v, want %d", c.name, fired, len(c.want))
		}
	}
}

func TestFaultPlanIsDeterministicPerQueue(t *testing.T) {
	rule := Rule{Probability: 0.1, Fault: fail}
	alone := hits(plan(t, 7, rule), 10000)
	if n := len(alone); n < 850 || n > 1150 {
		t.Errorf("%d of 10000 hits with probability 0.1", n)
	}
	if slices.Equal(alone, hits(plan(t, 8, rule), 10000)) {
		t.Error("another seed hits the same commands")
	}
	// Commands of other queues in between change nothing.
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewFaultPlan(7, rule)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for i := range uint64(200) {
			for range rapid.IntRange(0, 2).Draw(t, "others") {
				p.Command(&CommandInfo{Queue: 2, Opcode: libnvm.OpRead, Blocks: 1})
			}
			if p.Command(&CommandInfo{Queue: 1, Opcode: libnvm.OpRead, Blocks: 1}) == fail {
				got = append(got, i+1)
			}
		}
		want := alone[:len(got)]
		if !slices.Equal(got, want) || len(alone) > len(got) && alone[len(got)] <= 200 {
			t.Fatalf("hits %v, want the prefix of %v", got, alone[:len(got)+1])
		}
	})
}

func TestFaultsCombine(t *testing.T) {
	p := plan(t, 1,
		Rule{Fault: Fault{Status: libnvm.StatusWriteFault, Transfer: 512, Delay: time.Millisecond}},
		Rule{Fault: Fault{Status: libnvm.StatusInternalError, Transfer: -1, Delay: time.Second, Torn: true}},
		Rule{Fault: Fault{Duplicates: 2, Hold: 1, Drop: true, StaleHead: true, Corrupt: true, Fatal: true, Gone: true}})
	want := Fault{Status: libnvm.StatusWriteFault, Transfer: 512, Delay: time.Second + time.Millisecond, Torn: true,
		Duplicates: 2, Hold: 1, Drop: true, StaleHead: true, Corrupt: true, Fatal: true, Gone: true}
	if got := p.Command(&CommandInfo{Queue: 1}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestGatesCombine: a completion waits for the gate of every rule that hits it.
func TestGatesCombine(t *testing.T) {
	var gates []chan struct{}
	var rules []Rule
	for range 3 {
		g := make(chan struct{})
		gates = append(gates, g)
		rules = append(rules, Rule{Fault: Fault{Gate: g}}, Rule{Fault: Fault{Gate: g}}, Rule{Fault: Fault{Delay: 1}})
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}} {
		for i, g := range gates {
			g = make(chan struct{})
			gates[i] = g
			rules[3*i].Fault.Gate, rules[3*i+1].Fault.Gate = g, g
		}
		f := plan(t, 1, rules...).Command(&CommandInfo{Queue: 1})
		if f.Gate == nil || f.Delay != 3 {
			t.Fatalf("got %+v, want a gate and a delay of 3 ns", f)
		}
		nested := combine(Fault{}, combine(Fault{Torn: true}, f)) // a plan behind a plan
		for _, i := range order {
			if f.open() || nested.open() {
				t.Fatalf("order %v: open before gate %d is", order, i)
			}
			close(gates[i])
		}
		if !f.open() || !nested.open() {
			t.Fatalf("order %v: every gate is open, the completion still waits", order)
		}
	}
	if none := (&Fault{}); !none.open() {
		t.Error("no gate, and it waits")
	}
}

func TestFaultPlanErrors(t *testing.T) {
	_, err := NewFaultPlan(1,
		Rule{Name: "a", Probability: 1.5, Fault: fail},
		Rule{Name: "b", Probability: math.NaN(), Fault: fail},
		Rule{Name: "c", FirstLBA: 2, LastLBA: 1, Fault: fail},
		Rule{Name: "d", Admin: true, Queue: 1, Fault: fail},
		Rule{Name: "e", Fault: Fault{Delay: -1}},
		Rule{Name: "f", Fault: Fault{Transfer: -1, DNR: true}})
	if err == nil {
		t.Fatal("six bad rules were taken")
	}
	for _, name := range []string{"(a)", "(b)", "(c)", "(d)", "(e)", "(f)"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("rule %s is not in the error:\n%v", name, err)
		}
	}
}

func TestModelPacer(t *testing.T) {
	m, err := servicetime.Load("1x980pro")
	if err != nil {
		t.Fatal(err)
	}
	p := NewModelPacer(m, 1)
	for _, c := range []CommandInfo{{Queue: 0, Opcode: libnvm.AdminGetLogPage, Bytes: 4096}, {Queue: 1, Opcode: libnvm.OpFlush}, {Queue: 1, Opcode: libnvm.OpDataset, Bytes: 16}} {
		if got := p.Finish(time.Second, &c); got != time.Second {
			t.Errorf("opcode %#x on queue %d is paced by %v", c.Opcode, c.Queue, got-time.Second)
		}
	}
	// One read after the other: the model's latency, 45 us on average.
	now := 2 * time.Second
	const n = 20000
	for range n {
		now = p.Finish(now, &CommandInfo{Queue: 1, Opcode: libnvm.OpRead, Bytes: 4096})
	}
	if mean := (now - 2*time.Second) / n; mean < 43*time.Microsecond || mean > 47*time.Microsecond {
		t.Errorf("mean read latency %v, want 45 us", mean)
	}
	// Many writes at once: 5 GB/s.
	start, last := now, now
	for range 1000 {
		last = max(last, p.Finish(start, &CommandInfo{Queue: 1, Opcode: libnvm.OpWrite, Bytes: 1 << 20}))
	}
	if got := (last - start).Seconds(); got < 0.2 || got > 0.23 {
		t.Errorf("1000 MiB of writes took %v s, want about 0.21", got)
	}
}
