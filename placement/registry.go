package placement

import (
	"cmp"
	"slices"
)

// Info describes a policy for a help text.
type Info struct {
	Name      string      // in the grammar
	Doc       string      // what it does, in one line
	Source    string      // where it was published
	MinFrames int         // of an evictor: smallest tier in which it makes sense
	T1, T2    string      // of a placer: its default evictors
	Params    []ParamInfo // in alphabetical order
}

// ParamInfo describes a parameter of a policy.
type ParamInfo struct {
	Name    string
	Doc     string
	Default string
	Range   string // valid values: "1 <= k <= 1024" or "drop|keep"
}

// Evictors describes every evictor, in alphabetical order.
func Evictors() []Info {
	infos := make([]Info, len(evictors))
	for i, d := range evictors {
		infos[i] = Info{Name: d.name, Doc: d.doc, Source: d.source, MinFrames: d.min, Params: paramInfos(d.params)}
	}
	return infos
}

// Placers describes every placer, in alphabetical order.
func Placers() []Info {
	infos := make([]Info, len(placers))
	for i, d := range placers {
		infos[i] = Info{Name: d.name, Doc: d.doc, Source: d.source, T1: d.t1, T2: d.t2, Params: paramInfos(d.params)}
	}
	return infos
}

// findEvictor returns the evictor of that name, nil if there is none.
func findEvictor(name string) *evictorDef {
	i, ok := slices.BinarySearchFunc(evictors, name, func(d evictorDef, n string) int { return cmp.Compare(d.name, n) })
	if !ok {
		return nil
	}
	return &evictors[i]
}

// findPlacer returns the placer of that name, nil if there is none.
func findPlacer(name string) *placerDef {
	i, ok := slices.BinarySearchFunc(placers, name, func(d placerDef, n string) int { return cmp.Compare(d.name, n) })
	if !ok {
		return nil
	}
	return &placers[i]
}

// defaultEvictor is d with its default parameters.
func defaultEvictor(d *evictorDef) evictorSpec {
	return evictorSpec{def: d, args: defaults(d.params)}
}

// defaultSpec is d with its default evictors and parameters.
func defaultSpec(d *placerDef) Spec {
	return Spec{
		placer: d,
		args:   defaults(d.params),
		t1:     defaultEvictor(findEvictor(d.t1)),
		t2:     defaultEvictor(findEvictor(d.t2)),
	}
}

func evictorNames() []string {
	names := make([]string, len(evictors))
	for i, d := range evictors {
		names[i] = d.name
	}
	return names
}

func placerNames() []string {
	names := make([]string, len(placers))
	for i, d := range placers {
		names[i] = d.name
	}
	return names
}

// policyNames are the names that a policy can begin with: evictors, then
// placers, each once.
func policyNames() []string {
	names := evictorNames()
	for _, n := range placerNames() {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

func paramNames(params []param) []string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	return names
}

func paramInfos(params []param) []ParamInfo {
	infos := make([]ParamInfo, len(params))
	for i, p := range params {
		infos[i] = p.info()
	}
	return infos
}
