package units

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{
		"0": 0, "1": 1, "64KiB": 64 << 10, "64 kib": 64 << 10, " 16GiB ": 16 << 30, "1.5GiB": 3 << 29,
		".5KiB": 512, "0.1KiB": 102, "0.0005KiB": 1, "15EiB": 15 << 60, "18446744073709551615": math.MaxUint64,
		"15.999999999999999999EiB": math.MaxUint64, "3B": 3, "2TiB": 2 << 40, "1PiB": 1 << 50, "7MiB": 7 << 20,
	} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	count := func(s string) error { _, err := ParseCount(s); return err }
	size := func(s string) error { _, err := ParseBytes(s); return err }
	span := func(s string) error { _, err := ParseDuration(s); return err }
	for _, c := range []struct {
		parse    func(string) error
		in, what string
	}{
		{size, "", "not a number"}, {size, "KiB", "not a number"}, {size, "1.KiB", "not a number"},
		{size, "1.2.3KiB", "not a number"}, {size, "-1KiB", "not a number"}, {size, "+1", "not a number"},
		{size, "1_000", "not a number"}, {size, "0x10", "not a number"}, {size, "1 2KiB", "not a number"},
		{size, "16GB", "write 16GiB"}, {size, "16g", "write 16GiB"}, {size, "16 parsecs", "write 16PiB"},
		{size, "16 zib", "use B, KiB"}, {size, "16EiB", "64 bits"}, {size, "18446744073709551616", "64 bits"},
		{size, "17179869184GiB", "64 bits"}, {size, "0.1234567890123456789KiB", "18 digits"},
		{size, "1KiB\x00", "unknown suffix"}, {size, "NaN", "unknown suffix"},
		{count, "1e6", "not a number"}, {count, "3KiB", "unknown suffix"}, {count, "20000000T", "64 bits"},
		{span, "5", "not a duration"}, {span, "-5s", "negative"}, {span, "", "not a duration"},
	} {
		err := c.parse(c.in)
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(typed.What, c.what) || typed.Input != c.in {
			t.Errorf("%q: error %v, want one saying %q", c.in, err, c.what)
		}
	}
}

func TestParseCount(t *testing.T) {
	for in, want := range map[string]uint64{"0": 0, "12": 12, "1M": 1e6, "2.5k": 2500, "3G": 3e9, "1T": 1e12} {
		if got, err := ParseCount(in); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1KiB", 64 << 10: "64KiB", 3 << 29: "1.5GiB", 1<<20 - 1: "1023.99KiB",
		1<<30 + 1: "1GiB", math.MaxUint64: "15.99EiB", 1100: "1.07KiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678"} {
		if got := FormatCount(n); got != want {
			t.Errorf("FormatCount(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1ns", 1234567: "1.23ms", 45678 * time.Millisecond: "45.7s", 59999 * time.Millisecond: "1m0s",
		123456 * time.Millisecond: "2m3s", -1500 * time.Millisecond: "-1.5s", math.MinInt64: "-2562047h47m16.854775807s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %s, want %s", d, got, want)
		}
	}
	if d, err := ParseDuration("1.5ms"); d != 1500*time.Microsecond || err != nil {
		t.Errorf("ParseDuration = %v, %v", d, err)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64().Draw(t, "n")
		if got, err := ParseBytes(ExactBytes(n)); err != nil || got != n {
			t.Fatalf("ParseBytes(ExactBytes(%d)) = %d, %v", n, got, err)
		}
		got, err := ParseBytes(FormatBytes(n))
		if err != nil || got > n || float64(n-min(got, n)) > float64(n)*0.01 {
			t.Fatalf("ParseBytes(FormatBytes(%d)) = %d, %v", n, got, err)
		}
	})
}

func TestFlag(t *testing.T) {
	var b Bytes
	if b.String() != "" || b.Type() != "size" {
		t.Errorf("unset flag shows as %q of type %q", b.String(), b.Type())
	}
	if err := b.Set("64KiB"); err != nil || b != 64<<10 || b.String() != "64KiB" {
		t.Errorf("Set: %v, %d, %s", err, b, b.String())
	}
	if err := b.Set("64KB"); err == nil || b != 64<<10 {
		t.Errorf("a refused value changed the flag: %v, %d", err, b)
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"16GiB", "1.5", "", "KiB", "18446744073709551615B", "0.99999999999999999EiB", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseBytes(s)
		if err != nil {
			if n != 0 {
				t.Fatalf("%q: %d with error %v", s, n, err)
			}
			return
		}
		if again, err := ParseBytes(ExactBytes(n)); err != nil || again != n {
			t.Fatalf("%q: %d reads back as %d, %v", s, n, again, err)
		}
	})
}
