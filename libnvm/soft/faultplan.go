package soft

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tritier/tritier/libnvm"
)

// Rule says which commands a fault hits. A command must match every condition
// that is set, and then be chosen by Nth and Probability.
type Rule struct {
	Name string // for reports

	// Conditions. Zero values match every command of an I/O queue.
	Admin    bool            // the admin queue instead
	Queue    uint16          // one I/O queue; 0 is every one
	Opcodes  []libnvm.Opcode // any of these
	NSID     uint32          // one namespace; 0 is every one
	FirstLBA uint64          // commands that touch a block from FirstLBA
	LastLBA  uint64          // to LastLBA; both 0 is every block

	// Choice among the commands that match, counted per queue from 1. With all
	// zero each is chosen.
	Nth         uint64  // every Nth one
	Skip        uint64  // not the first so many
	Limit       uint64  // at most so many per queue
	Probability float64 // each with this probability, 0 < p <= 1; 0 is 1

	Fault Fault
}

// A FaultPlan is a list of rules with a seed. Whether a rule hits a command
// depends on the seed, the rule, the queue and the commands that this queue has
// seen, never on time or on other queues, so that a run can be repeated. The
// faults of all rules that hit a command combine. It is safe for concurrent use.
type FaultPlan struct {
	seed  uint64
	rules []Rule

	mu     sync.Mutex // guards counts
	counts map[ruleQueue]*ruleCount
}

// ruleQueue is the key of a rule's counters.
type ruleQueue struct {
	rule  int
	queue uint16
}

type ruleCount struct{ matched, fired uint64 }

// NewFaultPlan checks the rules and reports everything that is wrong with them.
func NewFaultPlan(seed uint64, rules ...Rule) (*FaultPlan, error) {
	var errs []error
	for i, r := range rules {
		add := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("soft: fault rule %d (%s): %s", i, r.Name, fmt.Sprintf(format, args...)))
		}
		if !(r.Probability >= 0 && r.Probability <= 1) {
			add("probability %v is not between 0 and 1", r.Probability)
		}
		if r.LastLBA < r.FirstLBA {
			add("last block %d is before the first, %d", r.LastLBA, r.FirstLBA)
		}
		if r.Admin && r.Queue != 0 {
			add("the admin queue has no number other than 0")
		}
		if f := r.Fault; f.Delay < 0 || f.Duplicates < 0 || f.Hold < 0 {
			add("delay, duplicates and hold must not be negative")
		}
		if isNoFault(&r.Fault) {
			add("it does nothing")
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &FaultPlan{seed: seed, rules: slices.Clone(rules), counts: map[ruleQueue]*ruleCount{}}, nil
}

// isNoFault reports whether f changes nothing. Transfer and DNR alone do not,
// since they qualify Status.
func isNoFault(f *Fault) bool {
	rest := *f
	rest.Transfer, rest.DNR = 0, false
	return rest == Fault{}
}

// Command implements Faults.
func (p *FaultPlan) Command(c *CommandInfo) Fault {
	var sum Fault
	for i := range p.rules {
		if p.rules[i].matches(c) && p.fires(i, c.Queue) {
			sum = combine(sum, p.rules[i].Fault)
		}
	}
	return sum
}

// Seed returns the seed, for reports.
func (p *FaultPlan) Seed() uint64 { return p.seed }

// Fired returns how often each rule hit a command so far.
func (p *FaultPlan) Fired() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := make([]uint64, len(p.rules))
	for k, c := range p.counts {
		n[k.rule] += c.fired
	}
	return n
}

// String gives seed, rules and hits, one line each.
func (p *FaultPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fault plan, seed %d", p.seed)
	for i, n := range p.Fired() {
		fmt.Fprintf(&b, "\n  rule %d %s: %d commands", i, p.rules[i].Name, n)
	}
	return b.String()
}

func (r *Rule) matches(c *CommandInfo) bool {
	if r.Admin != (c.Queue == 0) || r.Queue != 0 && r.Queue != c.Queue {
		return false
	}
	if len(r.Opcodes) > 0 && !slices.Contains(r.Opcodes, c.Opcode) {
		return false
	}
	if r.NSID != 0 && r.NSID != c.NSID {
		return false
	}
	if r.FirstLBA == 0 && r.LastLBA == 0 {
		return true
	}
	// The first block beyond the range is compared without an overflow.
	return c.Blocks > 0 && c.LBA <= r.LastLBA && (c.LBA >= r.FirstLBA || r.FirstLBA-c.LBA < uint64(c.Blocks))
}

// fires counts a matching command and decides whether the rule hits it.
func (p *FaultPlan) fires(rule int, queue uint16) bool {
	r := &p.rules[rule]
	p.mu.Lock()
	defer p.mu.Unlock()
	key := ruleQueue{rule, queue}
	n := p.counts[key]
	if n == nil {
		n = new(ruleCount)
		p.counts[key] = n
	}
	n.matched++
	if n.matched <= r.Skip || r.Limit > 0 && n.fired >= r.Limit {
		return false
	}
	if r.Nth > 1 && (n.matched-r.Skip)%r.Nth != 0 {
		return false
	}
	if r.Probability > 0 && draw(p.seed, rule, queue, n.matched) >= r.Probability {
		return false
	}
	n.fired++
	return true
}

// draw is a number in [0,1) that depends on nothing but its arguments.
func draw(seed uint64, rule int, queue uint16, n uint64) float64 {
	x := mix64(seed ^ mix64(uint64(rule)<<16|uint64(queue)) ^ mix64(n+0x9e3779b97f4a7c15))
	return float64(x>>11) / (1 << 53)
}

// mix64 is the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// combine adds fault b to a: the first status stands, times and numbers add up,
// and a completion waits for every gate.
func combine(a, b Fault) Fault {
	if a.Status == libnvm.StatusSuccess {
		a.Status, a.DNR, a.Transfer = b.Status, b.DNR, b.Transfer
	}
	a.Delay += b.Delay
	a.shut(b.Gate)
	for g := b.more; g != nil; g = g.next {
		a.shut(g.ch)
	}
	a.Duplicates += b.Duplicates
	a.Hold += b.Hold
	a.Drop = a.Drop || b.Drop
	a.Torn = a.Torn || b.Torn
	a.StaleHead = a.StaleHead || b.StaleHead
	a.Corrupt = a.Corrupt || b.Corrupt
	a.Fatal = a.Fatal || b.Fatal
	a.Gone = a.Gone || b.Gone
	return a
}
