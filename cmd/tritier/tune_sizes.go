package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tritier/tritier/internal/units"
	"github.com/tritier/tritier/placement"
	"github.com/tritier/tritier/sim/tune"
)

// budgetFlags have sizes searched under a budget.
type budgetFlags struct {
	budget, gpuPrice, hostPrice float64
	steps                       int
	maxGPU, maxHost             units.Bytes
}

func (b *budgetFlags) register(fs *pflag.FlagSet) {
	fs.Float64Var(&b.budget, "budget", 0, "search tier sizes that together cost at most `MONEY`, instead of given ones")
	fs.Float64Var(&b.gpuPrice, "gpu-price", 0, "`PRICE` of a GiB of GPU memory, in the money of --budget")
	fs.Float64Var(&b.hostPrice, "host-price", 0, "`PRICE` of a GiB of host memory")
	fs.IntVar(&b.steps, "size-steps", 8, "shares of the budget to try for GPU memory: 1/N, 2/N, ... all of it")
	fs.Var(&b.maxGPU, "max-gpu-mem", "constraint: at most so much GPU memory, such as 80GiB")
	fs.Var(&b.maxHost, "max-host-mem", "constraint: at most so much host memory, such as 128GiB")
}

// check refuses flags that do not fit together.
func (b *budgetFlags) check(sized bool) error {
	switch {
	case !(b.budget >= 0 && b.gpuPrice >= 0 && b.hostPrice >= 0) || math.IsInf(b.budget+b.gpuPrice+b.hostPrice, 0):
		return errors.New("--budget, --gpu-price and --host-price must be numbers that are not negative")
	case b.budget == 0 && (b.gpuPrice > 0 || b.hostPrice > 0):
		return errors.New("--gpu-price and --host-price go with --budget: give one")
	case b.budget == 0:
		return nil
	case sized:
		return errors.New("--budget searches sizes: give it, or sizes, not both")
	case b.gpuPrice == 0 || b.hostPrice == 0:
		return errors.New("--budget needs the price of a GiB of each memory: --gpu-price and --host-price")
	case b.steps < 1 || b.steps > 1000:
		return fmt.Errorf("--size-steps %d: want 1 to 1000", b.steps)
	}
	return nil
}

// pages is what a tuner knows of each trace when it sizes tiers.
type pages struct {
	distinct int
	size     uint64 // bytes
}

// bytesPair is a choice of sizes in bytes.
type bytesPair struct{ gpu, host uint64 }

// pairs are the sizes on the grid: i/N of the money for GPU memory, the rest for
// host memory, both cut to their limits; equal ones come once.
func (b *budgetFlags) pairs() []bytesPair {
	const gib = 1 << 30
	buy := func(money, price float64, limit units.Bytes) uint64 {
		n := uint64(min(money/price*gib, 1<<60))
		if limit > 0 {
			n = min(n, uint64(limit))
		}
		return n
	}
	var out []bytesPair
	seen := map[bytesPair]bool{}
	for i := 1; i <= b.steps; i++ {
		p := bytesPair{gpu: buy(b.budget*float64(i)/float64(b.steps), b.gpuPrice, b.maxGPU)}
		left := b.budget - float64(p.gpu)/gib*b.gpuPrice
		p.host = buy(max(left, 0), b.hostPrice, b.maxHost)
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// sizes are the choices of tier sizes for traces.
func (t *tuner) tierSizes(traces []pages) ([]tune.Size, error) {
	if t.budget.budget > 0 {
		return t.budget.sizes(traces)
	}
	var out []tune.Size
	for _, p := range t.pairs {
		s := tune.Size{Name: p.name()}
		for i, tr := range traces {
			gpu, host, err := p.framesOf(tr.distinct, tr.size)
			if err != nil {
				return nil, of(t.pathAt(i), err)
			}
			if err := t.budget.within(gpu, host, tr.size); err != nil {
				return nil, of(t.pathAt(i), err)
			}
			s.Frames = append(s.Frames, [2]int{gpu, host})
		}
		out = append(out, s)
	}
	return out, nil
}

// within refuses sizes over the constraints.
func (b *budgetFlags) within(gpu, host int, pageSize uint64) error {
	for _, m := range []struct {
		flag   string
		frames int
		limit  units.Bytes
	}{{"--max-gpu-mem", gpu, b.maxGPU}, {"--max-host-mem", host, b.maxHost}} {
		if m.limit > 0 && uint64(m.frames) > uint64(m.limit)/pageSize {
			return fmt.Errorf("%s %s: the tier is to have %s", m.flag, m.limit.String(), units.FormatBytes(uint64(m.frames)*pageSize))
		}
	}
	return nil
}

// sizes are those of the budget's grid that have a frame of GPU memory.
func (b *budgetFlags) sizes(traces []pages) ([]tune.Size, error) {
	var out []tune.Size
	for _, p := range b.pairs() {
		s := tune.Size{Name: units.FormatBytes(p.gpu) + " + " + units.FormatBytes(p.host),
			Cost: (float64(p.gpu)*b.gpuPrice + float64(p.host)*b.hostPrice) / (1 << 30)}
		for _, tr := range traces {
			gpu, host := p.gpu/tr.size, p.host/tr.size
			if gpu > 0 {
				s.Frames = append(s.Frames, [2]int{int(min(gpu, placement.MaxPages)), int(min(host, placement.MaxPages))})
			}
		}
		if len(s.Frames) == len(traces) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--budget %g buys no page of GPU memory at %g a GiB", b.budget, b.gpuPrice)
	}
	return out, nil
}

// name is a pair as it was given.
func (p sizePair) name() string {
	gpu, host := p.gpu.text, p.host.text
	if p.gpu.implied {
		gpu = strconv.Itoa(defaultGPUShare) + "%"
	}
	if p.host.implied {
		host = strconv.Itoa(defaultHostFactor) + " x T1"
	}
	return gpu + " + " + host
}

// parsePositive reads a number above 0.
func parsePositive(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number above 0", text)
	}
	return v, nil
}
