package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tritier/tritier/placement"
)

// Space is what may be chosen: placers and evictors by name, and the values of
// their parameters. The zero Space is everything that works without knowing
// the future.
type Space struct {
	Placers []string // nil: all
	T1, T2  []string // evictors; nil: all
	// Values are the values to try, beside the default, of POLICY.PARAMETER, such as
	// gmt-reuse.window or s3-fifo.small, at most MaxValues of each; others have
	// steps around their default.
	Values map[string][]string
	// Accepts, if not nil, says why a policy cannot be used.
	Accepts func(placement.Spec) error
}

// MaxValues bounds the values of a parameter: each is tried of the best
// candidates and of the winner, so that a search of very many does not end.
const MaxValues = 64

// Fill checks s and writes out what nil stands for.
func (s *Space) Fill() error {
	all := func(list []string, infos []placement.Info, what string) ([]string, error) {
		var known []string
		for _, i := range infos {
			if !needsFuture(i.Name) {
				known = append(known, i.Name)
			}
		}
		for _, name := range list {
			if !slices.Contains(known, name) {
				return nil, fmt.Errorf("no %s %q to search: there are %s", what, name, strings.Join(known, ", "))
			}
		}
		if len(list) == 0 {
			return known, nil
		}
		return slices.Compact(slices.Sorted(slices.Values(list))), nil
	}
	var err error
	if s.Placers, err = all(s.Placers, placement.Placers(), "placer"); err != nil {
		return err
	}
	if s.T1, err = all(s.T1, placement.Evictors(), "evictor for T1"); err != nil {
		return err
	}
	if s.T2, err = all(s.T2, placement.Evictors(), "evictor for T2"); err != nil {
		return err
	}
	if err := s.checkValues(); err != nil {
		return err
	}
	return s.dropRefused()
}

// needsFuture says whether name is an evictor that no live system can run.
func needsFuture(name string) bool {
	spec, err := placement.Parse(name)
	return err == nil && spec.NeedsFuture()
}

// checkValues tries every value of Values.
func (s *Space) checkValues() error {
	for key, values := range s.Values {
		policy, param, found := strings.Cut(key, ".")
		if !found || len(values) == 0 {
			return fmt.Errorf("values of %q: want POLICY.PARAMETER and at least one value", key)
		}
		if len(values) > MaxValues {
			return fmt.Errorf("values of %q: %d are too many, at most %d: leave some out, and tune again around the best", key, len(values), MaxValues)
		}
		spec, prefix, err := s.specOf(policy)
		if err != nil {
			return fmt.Errorf("values of %q: %w", key, err)
		}
		for _, v := range values {
			if _, err := spec.With(prefix+param, v); err != nil {
				return fmt.Errorf("values of %q: %w", key, err)
			}
		}
	}
	return nil
}

// specOf is a policy that has the named placer, or evictor for T1.
func (s *Space) specOf(name string) (spec placement.Spec, prefix string, err error) {
	if isNamed(placement.Placers(), name) {
		spec, err = placement.Parse(name + "{}")
		return spec, "", err
	}
	spec, err = placement.Parse(name)
	return spec, placement.KeyT1 + ".", err
}

func isNamed(infos []placement.Info, name string) bool {
	return slices.ContainsFunc(infos, func(i placement.Info) bool { return i.Name == name })
}

// dropRefused leaves out what Accepts refuses whatever it is combined with.
func (s *Space) dropRefused() error {
	if s.Accepts == nil {
		return nil
	}
	usable := func(name string, in func(p, t1, t2 string) bool) bool {
		for _, p := range s.Placers {
			for _, t1 := range s.T1 {
				for _, t2 := range s.T2 {
					if in(p, t1, t2) && s.Accepts(compose(p, t1, t2)) == nil {
						return true
					}
				}
			}
		}
		return false
	}
	placers, t1s, t2s := slices.Clone(s.Placers), slices.Clone(s.T1), slices.Clone(s.T2)
	placers = slices.DeleteFunc(placers, func(n string) bool { return !usable(n, func(p, _, _ string) bool { return p == n }) })
	t1s = slices.DeleteFunc(t1s, func(n string) bool { return !usable(n, func(_, t1, _ string) bool { return t1 == n }) })
	t2s = slices.DeleteFunc(t2s, func(n string) bool { return !usable(n, func(_, _, t2 string) bool { return t2 == n }) })
	if len(placers) == 0 {
		return fmt.Errorf("no policy is left to search: %w", s.Accepts(compose(s.Placers[0], s.T1[0], s.T2[0])))
	}
	s.Placers, s.T1, s.T2 = placers, t1s, t2s
	return nil
}

// compose is a placer with evictors, all with their defaults. Names come from
// the registry, so that they parse.
func compose(placer, t1, t2 string) placement.Spec {
	spec, _ := placement.Parse(fmt.Sprintf("%s{t1=%s,t2=%s}", placer, t1, t2))
	return spec
}

// values are the values to try of a setting of spec, and whether they are all
// that may be tried.
func (s *Space) values(spec placement.Spec, set placement.Setting) (list []string, all bool) {
	owner, name := spec.Placer(), set.Key
	if tier, param, found := strings.Cut(set.Key, "."); found {
		owner, name = evictorName(spec, tier), param
	}
	if v, ok := s.Values[owner+"."+name]; ok {
		return v, true
	}
	return steps(set.Domain), false
}

func evictorName(spec placement.Spec, tier string) string {
	text := spec.T1()
	if tier == placement.KeyT2 {
		text = spec.T2()
	}
	name, _, _ := strings.Cut(text, "(")
	return name
}

// factors are the steps of a number around its default.
var factors = []float64{1.0 / 16, 1.0 / 4, 1.0 / 2, 1, 2, 4, 16}

// steps are values around a parameter's default, in order: all words; for a
// probability its quarters; else the default times and over 2, 4 and 16, and,
// where a share of one half or more cannot grow by half as much, half of what is left.
func steps(d placement.Domain) []string {
	if d.Words != nil {
		return d.Words
	}
	var numbers []float64
	def, _ := strconv.ParseFloat(d.Default, 64)
	if d.Lo == 0 && d.Hi == 1 && !d.Open {
		numbers = []float64{0, 0.25, 0.5, 0.75, 1, def}
	} else {
		for _, f := range factors {
			numbers = append(numbers, def*f)
		}
		if d.Open && d.Hi == 1 && def >= 0.5 {
			numbers = append(numbers, (1+def)/2)
		}
	}
	slices.Sort(numbers)
	var out []string
	for _, n := range numbers {
		if d.Integer {
			n = math.Round(n)
		}
		if n < d.Lo || n > d.Hi || d.Open && (n == d.Lo || n == d.Hi) {
			continue
		}
		if text := strconv.FormatFloat(n, 'g', 4, 64); !d.Integer {
			out = append(out, text)
		} else {
			out = append(out, strconv.FormatFloat(n, 'f', 0, 64))
		}
	}
	return slices.Compact(out)
}
