package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
	"github.com/tritier/tritier/libnvm/soft"
)

// faultDelay is the delay of --faults delay=P that names none.
const faultDelay = time.Millisecond

// faultKinds are what --faults can ask for.
var faultKinds = []struct {
	name  string
	rules []soft.Rule
}{
	{"error", []soft.Rule{
		{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Fault: soft.Fault{Status: libnvm.StatusUnrecoveredRead}},
		{Opcodes: []libnvm.Opcode{libnvm.OpWrite}, Fault: soft.Fault{Status: libnvm.StatusWriteFault}},
	}},
	{"delay", []soft.Rule{{Fault: soft.Fault{Delay: faultDelay}}}},
	{"drop", []soft.Rule{{Fault: soft.Fault{Drop: true}}}},
	{"duplicate", []soft.Rule{{Fault: soft.Fault{Duplicates: 1}}}},
	{"reorder", []soft.Rule{{Fault: soft.Fault{Hold: 3}}}},
	{"torn", []soft.Rule{{Fault: soft.Fault{Torn: true}}}},
	{"corrupt", []soft.Rule{{Opcodes: []libnvm.Opcode{libnvm.OpRead}, Fault: soft.Fault{Corrupt: true}}}},
}

func faultNames() string {
	var names []string
	for _, k := range faultKinds {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ") + " (delay:2ms=P delays by 2 ms)"
}

// faultSwitch holds a fault plan for each drive back until it is armed, so that
// filling a drive is not disturbed.
type faultSwitch struct {
	armed atomic.Bool
	seed  uint64
	rules []soft.Rule
	plans [drive.MaxDrives]*soft.FaultPlan
}

// parseFaults reads KIND=PROBABILITY,...
func parseFaults(s string, seed uint64) (*faultSwitch, error) {
	w := &faultSwitch{seed: seed}
	for _, part := range strings.Split(s, ",") {
		kind, value, ok := strings.Cut(part, "=")
		name, length, hasLength := strings.Cut(kind, ":")
		i := slices.IndexFunc(faultKinds, func(k struct {
			name  string
			rules []soft.Rule
		}) bool {
			return k.name == name
		})
		if i < 0 || hasLength && name != "delay" {
			return nil, fmt.Errorf("unknown kind %q; kinds are %s", kind, faultNames())
		}
		p, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || !(p > 0 && p <= 1) {
			return nil, fmt.Errorf("%q: write KIND=PROBABILITY, above 0 and at most 1", part)
		}
		for _, r := range faultKinds[i].rules {
			r.Name, r.Probability = name, p
			if hasLength {
				if r.Fault.Delay, err = units.ParseDuration(length); err != nil {
					return nil, err
				}
			}
			w.rules = append(w.rules, r)
		}
	}
	for i := range w.plans {
		plan, err := soft.NewFaultPlan(seed+uint64(i), w.rules...)
		if err != nil {
			return nil, err
		}
		w.plans[i] = plan
	}
	return w, nil
}

// plan is the plan of drive number i.
func (w *faultSwitch) plan(i int) soft.Faults { return switchedFaults{w, w.plans[i]} }

type switchedFaults struct {
	w    *faultSwitch
	plan *soft.FaultPlan
}

// Command implements soft.Faults.
func (s switchedFaults) Command(c *soft.CommandInfo) soft.Fault {
	if !s.w.armed.Load() {
		return soft.Fault{}
	}
	return s.plan.Command(c)
}

// fired counts the commands that each kind of fault has hit, over all drives.
func (w *faultSwitch) fired() map[string]uint64 {
	hits := map[string]uint64{}
	for _, p := range w.plans {
		for i, n := range p.Fired() {
			hits[w.rules[i].Name] += n
		}
	}
	return hits
}
