package placement

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	const drop = ",t2copy=drop}"
	for _, tc := range []struct{ in, want string }{
		{"lru", "tier-order{t1=lru,t2=lru" + drop},
		{"  clock\n", "tier-order{t1=clock,t2=clock" + drop},
		{"lru()", "tier-order{t1=lru,t2=lru" + drop},
		{"2q(kout=1)", "tier-order{t1=2q(kin=0.25,kout=1),t2=2q(kin=0.25,kout=1)" + drop},
		{"s3-fifo(small=.2)", "tier-order{t1=s3-fifo(cap=3,ghost=1,promote=1,small=0.2),t2=s3-fifo(cap=3,ghost=1,promote=1,small=0.2)" + drop},
		{"tier-order", "tier-order{t1=lru,t2=lru" + drop},
		{"tier-order{}", "tier-order{t1=lru,t2=lru" + drop},
		{"tier-order{t2=fifo}", "tier-order{t1=lru,t2=fifo" + drop},
		{"tier-order { t2 = fifo , t1 = arc ( ) }", "tier-order{t1=arc,t2=fifo" + drop},
		{"tier-order{t2copy=keep,t1=sieve}", "tier-order{t1=sieve,t2=lru,t2copy=keep}"},
		{"random", "tier-order{t1=random,t2=random" + drop},
		{"random{}", "random{t1=clock,t2=fifo,p=0.5" + drop},
		{"random{p=2.5e-1}", "random{t1=clock,t2=fifo,p=0.25" + drop},
		{"random{p=-0}", "random{t1=clock,t2=fifo,p=0" + drop},
		{"random{p=1e-9}", "random{t1=clock,t2=fifo,p=1e-09" + drop},
		{"bypass", "bypass{t1=clock,t2=fifo" + drop},
		{"gmt-reuse", "gmt-reuse{t1=clock,t2=fifo,first=0.5,fit-every=8192,k=16,r2=0.75,starve=0.8,t2copy=drop,vtd-direct=10240,window=4096}"},
		{"gmt-reuse{k=1,t2=lru,t2copy=keep}", "gmt-reuse{t1=clock,t2=lru,first=0.5,fit-every=8192,k=1,r2=0.75,starve=0.8,t2copy=keep,vtd-direct=10240,window=4096}"},
	} {
		spec, err := Parse(tc.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if got := spec.String(); got != tc.want {
			t.Errorf("Parse(%q) = %s, want %s", tc.in, got, tc.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		in    string
		pos   int
		what  string // part of What
		near  string
		valid string // one of Valid, "" if there is no list
	}{
		{"", 0, "name is missing, found the end", "", "lru"},
		{"{t1=lru}", 0, `name is missing, found "{"`, "", "lru"},
		{"lruu", 0, `unknown policy "lruu"`, "lru", "gmt-reuse"},
		{"LRU", 0, `unknown policy "LRU"`, "lru", "gmt-reuse"},
		{"s3fifo", 0, "unknown policy", "s3-fifo", "s3-fifo"},
		{"nothing", 0, "unknown policy", "", "bypass"},
		{"gmt-resue{}", 0, "unknown placer", "gmt-reuse", "gmt-reuse"},
		{"lru{t2=fifo}", 3, "lru is an evictor", "", "tier-order"},
		{"bypass(k=1)", 6, "bypass is a placer", "", ""},
		{"lru extra", 4, `"extra" after the end`, "", ""},
		{"lru)", 3, `")" after the end`, "", ""},
		{"bypass{t1=clok}", 10, `unknown evictor "clok"`, "clock", "fifo"},
		{"bypass{t1=}", 10, "evictor's name is missing", "", "fifo"},
		{"bypass{t3=lru}", 7, `unknown key of bypass "t3"`, "t1", "t2copy"},
		{"bypass{t1=lru,t1=lru}", 14, "t1 is set twice", "", "t2"},
		{"bypass{t2copy=keep,t2copy=keep}", 19, "t2copy is set twice", "", "t1"},
		{"bypass{t2copy=kept}", 14, "t2copy=kept", "", "keep"},
		{"bypass{t1=lru", 13, "{bypass is not closed", "", ""},
		{"bypass{t1=lru;}", 13, `found ";"`, "", ""},
		{"bypass{t1=lru,}", 14, `key of bypass is missing, found "}"`, "", "t1"},
		{"bypass{t1}", 9, "t1 needs =VALUE", "", ""},
		{"lru(size=3)", 4, "it takes no parameters", "", ""},
		{"2q(kin=0)", 7, "0 < kin < 1", "", ""},
		{"2q(kin=1)", 7, "0 < kin < 1", "", ""},
		{"2q(kin=nan)", 7, "want a number", "", ""},
		{"2q(kin=inf)", 7, "want a number", "", ""},
		{"2q(kin=)", 7, "value of kin is missing", "", ""},
		{"2q(kim=0.1)", 3, "unknown key of 2q", "kin", "kout"},
		{"s3-fifo(cap=1.5)", 12, "want an integer, 2 <= cap <= 63", "", ""},
		{"s3-fifo(cap=64)", 12, "want an integer", "", ""},
		{"s3-fifo(cap=99999999999999999999)", 12, "want an integer", "", ""},
		{"lirs(ghost=1000)", 11, "0 < ghost < 1000", "", ""},
		{"bypass{t2=s3-fifo(promote=3)}", 17, "promote=3 must be below cap=3", "", ""},
		{"random{p=1.01}", 9, "0 <= p <= 1", "", ""},
		{"lru\x00", 3, "after the end", "", ""},
		{strings.Repeat("l", maxPolicyLen+1), maxPolicyLen, "longer than", "", ""},
	} {
		spec, err := Parse(tc.in)
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %s, %v; want a SyntaxError", tc.in, spec, err)
			continue
		}
		if e.Pos != tc.pos || e.Near != tc.near || !strings.Contains(e.What, tc.what) {
			t.Errorf("Parse(%q): pos %d near %q what %q; want %d %q %q", tc.in, e.Pos, e.Near, e.What, tc.pos, tc.near, tc.what)
		}
		if (tc.valid == "") != (len(e.Valid) == 0) || tc.valid != "" && !slices.Contains(e.Valid, tc.valid) {
			t.Errorf("Parse(%q): valid %q, want %q among them", tc.in, e.Valid, tc.valid)
		}
	}
}

func TestSyntaxErrorNamesPlaceAndRemedy(t *testing.T) {
	_, err := Parse("tier-order{t1=clok}")
	want := `policy "tier-order{t1=clok}", character 15: unknown evictor "clok", did you mean "clock"? ` +
		"(valid: " + strings.Join(evictorNames(), ", ") + ")"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestCanonicalForm writes random policies in random order and spacing and
// checks that what was set is what the canonical form says.
func TestCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(placers).Draw(t, "placer")
		want := map[string]string{}
		items := drawParams(t, d.params, "", want)
		for _, tier := range []string{"t1", "t2"} {
			if rapid.Bool().Draw(t, tier) {
				e := rapid.SampledFrom(evictors).Draw(t, tier+" evictor")
				args := drawParams(t, e.params, tier+".", want)
				items = append(items, tier+" = "+e.name+"( "+strings.Join(args, " ,")+")")
				want[tier] = e.name
			}
		}
		items = rapid.Permutation(items).Draw(t, "order")
		in := d.name + " {" + strings.Join(items, ", ") + " }"
		spec, err := Parse(in)
		if err != nil {
			t.Fatalf("Parse(%q): %v", in, err)
		}
		checkSettings(t, spec, want)
		again, err := Parse(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Fatalf("Parse(%q) = %s, %v", spec, again, err)
		}
	})
}

// drawParams draws values for some of params, as KEY=VALUE, and notes them in
// want under prefix+KEY.
func drawParams(t *rapid.T, params []param, prefix string, want map[string]string) []string {
	var items []string
	for _, p := range params {
		if !rapid.Bool().Draw(t, prefix+p.name) {
			continue
		}
		var text string
		switch {
		case p.words != nil:
			text = rapid.SampledFrom(p.words).Draw(t, "word")
		case p.name == "promote": // below cap
			text = "1"
		case p.integer:
			n := rapid.IntRange(int(p.lo), int(p.hi)).Draw(t, "integer")
			text = strconv.Itoa(n)
		default:
			text = strconv.FormatFloat(rapid.Float64Range(p.hi/2, p.hi*0.999).Draw(t, "number"), 'g', -1, 64)
		}
		want[prefix+p.name] = text
		items = append(items, p.name+" =\t"+text)
	}
	return items
}

func checkSettings(t *rapid.T, s Spec, want map[string]string) {
	got := map[string]string{"t1": s.t1.def.name, "t2": s.t2.def.name}
	for i, p := range s.placer.params {
		got[p.name] = s.args[i].text
	}
	for tier, e := range map[string]evictorSpec{"t1.": s.t1, "t2.": s.t2} {
		for i, p := range e.def.params {
			got[tier+p.name] = e.args[i].text
		}
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s: %s = %s, want %s", s, k, got[k], v)
		}
	}
}

// FuzzParse looks for inputs that panic, that give an untyped error, or whose
// canonical form is not a fixed point.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"lru", "random{p=0.3}", "bypass{t1=2q(kin=.1,kout=2),t2copy=keep}",
		"tier-order{t1=s3-fifo(small=1e-3),t2=lirs}", "gmt-reuse{t1=clock,t2=fifo,k=16}", "{", "lru(", "a=b,\x00", "w-tinylfu(reset=+7)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if strings.HasPrefix(strings.TrimSpace(in), "@") {
			t.Skip("names a file")
		}
		spec, err := Parse(in)
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.Pos < 0 || e.Pos > len(in) || e.Error() == "" {
				t.Fatalf("Parse(%q): %#v", in, err)
			}
			return
		}
		again, err := Parse(spec.String())
		if err != nil || again.String() != spec.String() {
			t.Fatalf("%q: canonical %q reads back as %q, %v", in, spec, again, err)
		}
	})
}
