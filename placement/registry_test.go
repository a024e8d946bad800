package placement

import (
	"slices"
	"strings"
	"testing"
)

// TestTables checks what the look-ups and the canonical form rely on.
func TestTables(t *testing.T) {
	if names := evictorNames(); !slices.IsSorted(names) {
		t.Errorf("evictors are not sorted: %v", names)
	}
	if names := placerNames(); !slices.IsSorted(names) {
		t.Errorf("placers are not sorted: %v", names)
	}
	for _, d := range evictors {
		checkRow(t, d.name, d.doc, d.source, d.params)
		if d.min < 1 || d.build == nil || findEvictor(d.name).name != d.name {
			t.Errorf("%s: minimum %d, builder missing: %t", d.name, d.min, d.build == nil)
		}
	}
	for _, d := range placers {
		checkRow(t, d.name, d.doc, d.source, d.params)
		if d.build == nil || findEvictor(d.t1) == nil || findEvictor(d.t2) == nil || findPlacer(d.name).name != d.name {
			t.Errorf("%s: default evictors %q, %q", d.name, d.t1, d.t2)
		}
		if !slices.Contains(paramNames(d.params), t2copy.name) {
			t.Errorf("%s lacks %s", d.name, t2copy.name)
		}
	}
}

func checkRow(t *testing.T, name, doc, source string, params []param) {
	t.Helper()
	if doc == "" || source == "" || strings.Contains(doc, "\n") {
		t.Errorf("%s: doc %q, source %q", name, doc, source)
	}
	if !slices.IsSorted(paramNames(params)) {
		t.Errorf("%s: parameters are not sorted: %v", name, paramNames(params))
	}
	for _, p := range params {
		got, err := p.parse(p.def)
		if err != nil || got.text != p.def {
			t.Errorf("%s: default %s=%s parses to %q, %v", name, p.name, p.def, got.text, err)
		}
		if p.doc == "" || strings.ContainsFunc(p.name, func(r rune) bool { return r > 127 || !isWord(byte(r)) }) {
			t.Errorf("%s: parameter %q, doc %q", name, p.name, p.doc)
		}
	}
}

func TestInfo(t *testing.T) {
	if got := len(Evictors()); got != 12 {
		t.Errorf("%d evictors, want 12", got)
	}
	i := slices.IndexFunc(Evictors(), func(i Info) bool { return i.Name == "2q" })
	q := Evictors()[i]
	want := ParamInfo{Name: "kin", Doc: "share of the frames for new pages", Default: "0.25", Range: "0 < kin < 1"}
	if q.MinFrames != MinFrames2Q || len(q.Params) != 2 || q.Params[0] != want {
		t.Errorf("2q: %+v", q)
	}
	i = slices.IndexFunc(Placers(), func(i Info) bool { return i.Name == "bypass" })
	b := Placers()[i]
	if b.T1 != "clock" || b.T2 != "fifo" || len(b.Params) != 1 || b.Params[0].Range != "drop|keep" {
		t.Errorf("bypass: %+v", b)
	}
}

func TestNearest(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{"tinylfu", "w-tinylfu"}, {"CLOCK", "clock"}, {"arx", "arc"}, {"", ""}, {"zzzz", ""}, {"xy", ""},
	} {
		if got := nearest(tc.got, evictorNames()); got != tc.want {
			t.Errorf("nearest(%q) = %q, want %q", tc.got, got, tc.want)
		}
	}
}
