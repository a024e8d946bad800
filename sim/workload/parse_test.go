package workload

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"zipf":                    "zipf{pages=100000,page-size=64KiB,accesses=1000000,theta=0.99,scramble=false,writes=0,seed=1}",
		" scan { } ":              "scan{pages=100000,page-size=64KiB,writes=0,seed=1}",
		"uniform{bytes=16GiB}":    "uniform{pages=262144,page-size=64KiB,accesses=1000000,writes=0,seed=1}",
		"scan{bytes=1,writes=-0}": "scan{pages=1,page-size=64KiB,writes=0,seed=1}",
		"mix{pages=9}":            "mix{pages=9,page-size=64KiB,accesses=1000000,theta=0.99,scramble=false,scan-pages=9,scan=0.5,writes=0,seed=1}",
		"zipf{ pages = 5 ,theta=1e0,page-size=4kib,seed=18446744073709551615}": "zipf{pages=5,page-size=4KiB,accesses=1000000,theta=1,scramble=false,writes=0,seed=18446744073709551615}",
	} {
		s, err := Parse(in)
		if err != nil || s.String() != want {
			t.Errorf("Parse(%q) = %s, %v; want %s", in, s, err, want)
			continue
		}
		if again, err := Parse(s.String()); err != nil || again.String() != want || !maps.Equal(again.values, s.values) {
			t.Errorf("Parse(%q) = %s, %v", want, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                `unknown shape ""; valid are zipf, uniform,`,
		"zip":                             "valid are zipf, uniform,",
		"zipf{":                           "closing }",
		"zipf}":                           "unknown shape",
		"zipf{}x":                         `unexpected "x"`,
		"zipf{{}}":                        `unexpected "}"`,
		"zipf{theta}":                     "is not key=value",
		"zipf{theta=}":                    "is not key=value",
		"zipf{=1}":                        "is not key=value",
		"zipf{pages=1,}":                  "is not key=value",
		"zipf{thet=1}":                    `no parameter "thet"; valid are pages, bytes, page-size, accesses, theta,`,
		"zipf{theta=1,theta=1}":           "given twice",
		"zipf{pages=1,bytes=1}":           "twice",
		"zipf{pages=0}":                   "out of range: 1 to 1099511627776",
		"zipf{pages=-1}":                  "not a number",
		"zipf{pages=1e3}":                 "not a number",
		"zipf{bytes=0}":                   "out of range",
		"zipf{bytes=1EiB,page-size=1B}":   "pages=1152921504606846976 is out of range",
		"zipf{theta=NaN}":                 "not a number",
		"zipf{theta=Inf}":                 "out of range: 0 to 20",
		"zipf{theta=-0.1}":                "out of range",
		"zipf{writes=1.01}":               "out of range: 0 to 1",
		"zipf{page-size=3000}":            "not a power of two",
		"zipf{page-size=64KB}":            "write 64KiB",
		"zipf{scramble=yes}":              "valid are false, true",
		"shift{from=scan}":                "valid are zipf, uniform, loop",
		"zipf{seed=18446744073709551616}": "64 bits",
	} {
		_, err := Parse(in)
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) || typed.Spec != in {
			t.Errorf("Parse(%q): %v, want %q", in, err, want)
		}
	}
}

// TestCatalogue: every shape parses bare, and documents all it takes.
func TestCatalogue(t *testing.T) {
	for _, c := range Catalogue() {
		if s, err := Parse(c.Name); err != nil || s.Name() != c.Name || s.PageSize() != 64<<10 {
			t.Errorf("%s: %v", c.Name, err)
		}
		if c.Doc == "" || len(c.Params) == 0 {
			t.Errorf("%s is not documented", c.Name)
		}
		for _, p := range c.Params {
			if p.Doc == "" || p.Sets == "" && p.Default != "" && !strings.Contains(mustParse(t, c.Name).String(), p.Name+"="+p.Default) {
				t.Errorf("%s.%s: doc %q, default %q not in %s", c.Name, p.Name, p.Doc, p.Default, mustParse(t, c.Name))
			}
		}
	}
}

func mustParse(t *testing.T, text string) Spec {
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		f.Add(name)
		f.Add(name + "{bytes=1GiB,page-size=4KiB}")
	}
	for _, s := range []string{"zipf{theta=1e-320}", "mix{scan=0.1,scan-pages=2K}", "shift{at=1,to=loop}", "zipf{\x00=1}", "scan{seed=1,}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "workload ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		again, err := Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q: %s reads back as %s, %v", text, s, again, err)
		}
	})
}
