package yamlfile_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tritier/tritier/internal/yamlfile"
)

type inner struct {
	Depth uint32 `yaml:"depth"`
}

type outer struct {
	N    int              `yaml:"n"`
	List []int            `yaml:"list"`
	P    *inner           `yaml:"p"`
	Of   map[string]inner `yaml:"of"`
	F    float64          `yaml:"f"`
	Any  []any            `yaml:"any"`
	Text string           `yaml:"text"`
	At   time.Time        `yaml:"at"`
	For  time.Duration    `yaml:"for"`
	own  int
}

// TestWhole: a number that is not whole is refused, with its place, wherever the program counts.
func TestWhole(t *testing.T) {
	for text, at := range map[string]string{
		"n: 4.7": "[1:4]", "n: -0.5": "[1:4]", "n: '4.7'": "[1:4]", "n: 1e-1": "[1:4]", "n: .inf": "[1:4]", "n: -.inf": "[1:4]", "n: -1e30": "[1:4]", "n: 1e17": "[1:4]",
		"n: !!int 4.7": "", "text: a\nlist: [1, 2.5]": "[2:11]", "list:\n- 1\n- 2.5": "[3:3]", "p: {depth: 1.5}": "[1:12]", "p:\n  depth: 1.5": "[2:10]",
		"of: {a: {depth: 2}, b: {depth: 1.5}}": "[1:32]", "any: [&x 4.7]\nn: *x": "", "of: {a: &x {depth: 2.5}}\np: *x": "", "f: &x 4.7\nn: *x": "",
		"of:\n  a:\n    <<: {depth: 2.5}": "", "n: |\n  4.7": "",
	} {
		var v outer
		err := yamlfile.Decode([]byte(text), &v)
		var placed yaml.Error
		if !errors.As(err, &placed) || !strings.Contains(err.Error(), at) || placed.GetToken() == nil {
			t.Errorf("%q is %+v, %v; want it refused at %s", text, v, err, at)
		}
	}
}

// TestTaken: what is whole is taken, however it is written, and what is no count stays as it is.
func TestTaken(t *testing.T) {
	text := "n: 4.0\nlist: [1e3, '7', 0x10, -3]\np: &p {depth: 1_000}\nof: {a: *p, b: {depth: 3}}\nf: 0.5\nany: [0.5, 4.7]\ntext: 4.7\nat: 2026-01-02T03:04:05Z\nfor: 1.5s\n"
	want := outer{N: 4, List: []int{1000, 7, 16, -3}, P: &inner{1000}, Of: map[string]inner{"a": {1000}, "b": {3}}, F: 0.5, Any: []any{0.5, 4.7}, Text: "4.7",
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), For: 1500 * time.Millisecond, own: 1}
	v := outer{own: 1}
	if err := yamlfile.Decode([]byte(text), &v); err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, v, want)
	}
	var big struct {
		N uint64
		M *int64
	}
	if err := yamlfile.Decode([]byte("n: 18446744073709551615\nm: ~\n"), &big); err != nil || big.N != 1<<64-1 || big.M != nil {
		t.Errorf("%v, %+v", err, big)
	}
}

// TestStrict: one document, and no field that is unknown or there twice.
func TestStrict(t *testing.T) {
	for text, want := range map[string]error{"": io.EOF, "n: 1\n---\nn: 2\n": yamlfile.ErrMore} {
		if err := yamlfile.Decode([]byte(text), new(outer)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{"m: 1", "n: 1\nn: 2", "n: [", "n: x", "own: 1"} {
		var placed yaml.Error
		if err := yamlfile.Decode([]byte(text), new(outer)); !errors.As(err, &placed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	_ = outer{}.own
}
