package tune

import (
	"context"
	"slices"
	"strconv"

	"github.com/tritier/tritier/placement"
)

// Candidate is a policy at one of the Problem's sizes.
type Candidate struct {
	Policy placement.Spec
	Size   int // index into Problem.Sizes
}

func (c Candidate) key() string { return strconv.Itoa(c.Size) + " " + c.Policy.String() }

// complexity decides between candidates that do equally well: first by how many
// settings are not at their default, evictors other than the placer's own
// included, then by how many settings there are.
func (c Candidate) complexity() (n int) {
	settings := c.Policy.Settings()
	for _, set := range settings {
		n += differ(set.Value, set.Default)
	}
	for _, i := range placement.Placers() {
		if i.Name == c.Policy.Placer() {
			n += differ(i.T1, evictorName(c.Policy, placement.KeyT1)) + differ(i.T2, evictorName(c.Policy, placement.KeyT2))
		}
	}
	const most = 1 << 10 // no policy has as many settings
	return n*most + len(settings)
}

func differ(a, b string) int {
	if a == b {
		return 0
	}
	return 1
}

// draws is a seeded source of choices: a hash of a counter.
type draws struct {
	seed, n uint64
}

// drawDomain keeps the choices apart from other uses of the seed.
const drawDomain placement.Page = 0x74756e65

func (d *draws) below(n int) int {
	d.n++
	return int(placement.Hash(d.seed, d.n, drawDomain) % uint64(n))
}

// deck deals the numbers below n in random order, over and over, so that each
// comes as often as every other.
type deck struct {
	draws *draws
	left  []int
	n     int
}

func (k *deck) next() int {
	if len(k.left) == 0 {
		for i := range k.n {
			k.left = append(k.left, i)
		}
	}
	i := k.draws.below(len(k.left))
	v := k.left[i]
	k.left = slices.Delete(k.left, i, i+1)
	return v
}

// pool collects different candidates that can be built.
type pool struct {
	p    *Problem
	seen map[string]bool
	list []Candidate
}

// add adds c in its simplest form, unless it is there or cannot be used.
func (o *pool) add(c Candidate) bool {
	c, ok := o.p.simplest(c)
	if !ok || o.seen[c.key()] {
		return false
	}
	o.seen[c.key()] = true
	o.list = append(o.list, c)
	return true
}

// candidates draws up to n different candidates: every placer as it comes, at
// every size; every evictor in both tiers under tier-order, at one of the sizes;
// and then stratified draws, in which each placer, each evictor and each size
// comes as often as every other. Very many take minutes: when ctx ends there are
// those drawn by then, and whoever evaluates them finds out.
func (p *Problem) candidates(ctx context.Context, n int) []Candidate {
	o := &pool{p: p, seen: map[string]bool{}}
	for size := range p.Sizes {
		for _, c := range p.placerDefaults(size) {
			o.add(c)
		}
	}
	s := &p.Space
	for i, e := range s.T1 {
		if slices.Contains(s.T2, e) && slices.Contains(s.Placers, "tier-order") {
			o.add(Candidate{compose("tier-order", e, e), i % len(p.Sizes)})
		}
	}
	d := &draws{seed: p.Seed}
	placers, t1, t2 := deck{draws: d, n: len(s.Placers)}, deck{draws: d, n: len(s.T1)}, deck{draws: d, n: len(s.T2)}
	sizes := deck{draws: d, n: len(p.Sizes)}
	for range 20 * n { // a small space has no n candidates
		if len(o.list) >= n || ctx.Err() != nil {
			break
		}
		spec := compose(s.Placers[placers.next()], s.T1[t1.next()], s.T2[t2.next()])
		for _, set := range spec.Settings() {
			if d.below(2) == 0 {
				continue // its default
			}
			values, _ := s.values(spec, set)
			if got, err := spec.With(set.Key, values[d.below(len(values))]); err == nil {
				spec = got
			}
		}
		o.add(Candidate{spec, sizes.next()})
	}
	return o.list
}

// placerDefaults are the placers as they come, in their simplest form.
func (p *Problem) placerDefaults(size int) []Candidate {
	var out []Candidate
	for _, i := range placement.Placers() {
		if !slices.Contains(p.Space.Placers, i.Name) || !slices.Contains(p.Space.T1, i.T1) || !slices.Contains(p.Space.T2, i.T2) {
			continue
		}
		if c, ok := p.simplest(Candidate{compose(i.Name, i.T1, i.T2), size}); ok {
			out = append(out, c)
		}
	}
	return out
}

// simplest is c without differences that make none: what T2 does when no page
// goes there. ok is false when c cannot be built or used, on one of the traces.
func (p *Problem) simplest(c Candidate) (_ Candidate, ok bool) {
	if p.Space.Accepts != nil && p.Space.Accepts(c.Policy) != nil {
		return c, false
	}
	hosts := false
	for i := range p.Traces {
		gpu, host := p.Sizes[c.Size].frames(i)
		hosts = hosts || host > 0
		if _, err := c.Policy.Build(placement.Env{T1Frames: min(gpu, saneFrames), T2Frames: min(host, saneFrames)}); err != nil {
			return c, false
		}
	}
	built, err := c.Policy.Build(placement.Env{T1Frames: saneFrames, T2Frames: saneFrames})
	if err != nil {
		return c, false
	}
	_, learns := built.Placer.(placement.Observer)
	steady, fixed := built.Placer.(placement.Steady)
	if fixed && steady.Always() == placement.ToT3 || !hosts {
		if !hosts && !learns && slices.Contains(p.Space.Placers, "bypass") {
			c.Policy = p.with(c.Policy, placement.KeyPlacer, "bypass")
		}
		c.Policy = p.with(c.Policy, placement.KeyT2, p.plainT2())
		c.Policy = p.with(c.Policy, "t2copy", "drop")
	}
	return c, true
}

// saneFrames is enough for every policy.
const saneFrames = 1024

// plainT2 is the evictor that stands where it does not matter.
func (p *Problem) plainT2() string {
	if slices.Contains(p.Space.T2, "fifo") {
		return "fifo"
	}
	return p.Space.T2[0]
}

// with is spec with a change that is possible, else spec.
func (p *Problem) with(spec placement.Spec, key, value string) placement.Spec {
	if got, err := spec.With(key, value); err == nil {
		return got
	}
	return spec
}

// neighbour is a candidate that differs from another in one thing.
type neighbour struct {
	Candidate
	key, value string // what, and to what
}

// neighbours are the candidates that differ from c in the placer, an evictor, a
// parameter or the size.
func (p *Problem) neighbours(c Candidate) []neighbour {
	var out []neighbour
	seen := map[string]bool{c.key(): true}
	add := func(spec placement.Spec, size int, key, value string) {
		got, ok := p.simplest(Candidate{spec, size})
		if ok && !seen[got.key()] {
			seen[got.key()] = true
			out = append(out, neighbour{got, key, value})
		}
	}
	change := func(key, value string) {
		if spec, err := c.Policy.With(key, value); err == nil {
			add(spec, c.Size, key, value)
		}
	}
	for _, name := range p.Space.Placers {
		change(placement.KeyPlacer, name)
	}
	for _, name := range p.Space.T1 {
		change(placement.KeyT1, name)
	}
	for _, name := range p.Space.T2 {
		change(placement.KeyT2, name)
	}
	for _, set := range c.Policy.Settings() {
		values, all := p.Space.values(c.Policy, set)
		if !all {
			values = slices.Concat(values, between(set))
		}
		for _, v := range values {
			change(set.Key, v)
		}
	}
	for size := range p.Sizes {
		add(c.Policy, size, keySize, p.Sizes[size].Name)
	}
	return out
}

// keySize is the key of a neighbour at another size.
const keySize = "size"

// between are values near a setting's own, to refine what the steps found.
func between(set placement.Setting) []string {
	if set.Words != nil {
		return nil
	}
	v, _ := strconv.ParseFloat(set.Value, 64)
	d := set.Domain
	d.Default = set.Value
	if d.Lo == 0 && d.Hi == 1 && !d.Open {
		return []string{format(max(0, v-0.1)), format(min(1, v+0.1))}
	}
	all := steps(d)
	i := slices.Index(all, set.Value)
	if i < 0 {
		return nil
	}
	return all[max(0, i-1):min(len(all), i+2)]
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
