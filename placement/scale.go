package placement

import "math"

// Scaled is the policy for a miniature: a memory whose accesses and tiers are
// share times those of the one that s is meant for (0 to 1; 1 is s itself).
// What a parameter gives as a share of a tier, as a probability or as a page's
// own uses is the same there. What counts accesses, pages or evictions shrinks
// with the miniature, so that it spans the same part of the program; it stays
// in its range, which on very small miniatures is as near as it gets.
func (s Spec) Scaled(share float64) Spec {
	if s.placer == nil || s.placer.scale == nil || !(share < 1) {
		return s
	}
	s.args = s.placer.scale(max(share, 0), append([]setting(nil), s.args...))
	return s
}

// times is an integer parameter's value times factor, rounded and held to the
// parameter's range.
func (p param) times(v setting, factor float64) setting {
	n := min(max(math.Round(v.num*factor), p.lo), p.hi)
	got, _ := p.parse(decimal(n)) // in range: it parses
	return got
}

// scaleGMTReuse scales the distances and windows of gmt-reuse. Of fewer pages a
// larger part is sampled, one in k*share, so that fits come from as many samples
// and at the same points of the program; when even all pages are too few for
// that, fits come from fewer samples rather than later.
func scaleGMTReuse(share float64, args []setting) []setting {
	return scaleReuse(gmtReuseParams, share, args)
}

// scaleAdaptive scales the gmt-reuse in adaptive. Its shadows stay as large as
// they may be: in a miniature they see a larger part of the pages.
func scaleAdaptive(share float64, args []setting) []setting {
	return scaleReuse(adaptiveParams, share, args)
}

// scaleReuse is scaleGMTReuse for params that include gmt-reuse's.
func scaleReuse(params []param, share float64, args []setting) []setting {
	for i, p := range params {
		switch p.name {
		case "k":
			was := args[i].num
			args[i] = p.times(args[i], share)
			every := paramIndex(params, "fit-every")
			args[every] = params[every].times(args[every], share*was/args[i].num)
		case "vtd-direct", "window":
			args[i] = p.times(args[i], share)
		}
	}
	return args
}

// paramIndex is the place of a name in params, which has it.
func paramIndex(params []param, name string) int {
	for i, p := range params {
		if p.name == name {
			return i
		}
	}
	return 0
}
