package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParseScaled(t *testing.T) {
	for _, c := range []struct {
		in   string
		unit uint64
		want uint64
		ok   bool
	}{
		{"0", 1e9, 0, true}, {"12.5", 1e9, 12_500_000_000, true}, {"1711929600.123456789", 1e9, 1711929600_123456789, true},
		{"0.0000000019", 1e9, 1, true}, {"1.7e9", 1e9, 17e17, true}, {"1e3", 1e6, 1e9, true}, {"5e-1", 10, 5, true},
		{"1.0000000000000000000001", 1, 1, true}, {"18446744073709551615", 1, math.MaxUint64, true},
		{"18446744073.709551615", 1e9, math.MaxUint64, true}, {"18446744073.709551616", 1e9, 0, false},
		{"18446744073709551616", 1, 0, false}, {"2e19", 1, 0, false}, {"-1", 1, 0, false}, {"-0.5", 1, 0, false},
		{"", 1, 0, false}, {".", 1, 0, false}, {"5.", 1, 0, false}, {".5", 10, 0, false}, {"1/2", 10, 0, false}, {"1_0", 1, 0, false},
		{"1e9999", 1, 0, false}, {"1.2.3", 1, 0, false}, {"0x10", 1, 0, false}, {"1p4", 1, 0, false}, {"1e", 1, 0, false},
	} {
		if got, ok := parseScaled([]byte(c.in), c.unit); ok != c.ok || ok && got != c.want {
			t.Errorf("%s times %d: %d, %v; want %d, %v", c.in, c.unit, got, ok, c.want, c.ok)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		in := fmt.Sprintf("%d.%0*d", rapid.Uint64Range(0, 1<<40).Draw(rt, "whole"), rapid.IntRange(1, 20).Draw(rt, "digits"),
			rapid.Uint64Range(0, 1e6).Draw(rt, "fraction"))
		unit := rapid.SampledFrom([]uint64{1, 1e3, 1e6, 1e9}).Draw(rt, "unit")
		x, _ := new(big.Rat).SetString(in)
		x.Mul(x, new(big.Rat).SetInt64(int64(unit)))
		want := new(big.Int).Quo(x.Num(), x.Denom())
		if got, ok := parseScaled([]byte(in), unit); ok != want.IsUint64() || ok && got != want.Uint64() {
			rt.Fatalf("%s times %d: %d, %v; want %v", in, unit, got, ok, want)
		}
	})
}

// FuzzJSONScan: what encoding/json accepts, the scanner accepts and consumes.
func FuzzJSONScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\"\u0041",true,false,null,{}],"b":{"c":[]}}`, `[`, `"\`, `1`, ` [ 1 , 2 ] `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := jscan{b: data}
		ok := s.skip(0) && s.ws() == 0 && s.i >= len(data)
		if json.Valid(data) && !ok {
			t.Fatalf("valid JSON is refused at %d", s.i)
		}
		if s.i < 0 {
			t.Fatal("a negative position")
		}
	})
}
