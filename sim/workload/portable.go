package workload

import "math"

// The functions of this file give the same bits on every processor, which
// those of package math do not promise: each product is converted to float64
// before it goes anywhere, which forbids the compiler to fuse the two
// (Go specification, Floating-point operators). They are accurate to a few
// units in the last place.

const (
	ln2High = 0x1.62e42fep-1            // the first bits of ln 2: k*ln2High is exact for |k| < 2^25
	ln2Low  = math.Ln2 - 0x1.62e42fep-1 // the rest
)

// portableLog is the natural logarithm of a positive normal x.
func portableLog(x float64) float64 {
	b := math.Float64bits(x)
	exponent := int(b>>52) - 1023
	fraction := math.Float64frombits(b&(1<<52-1) | 1023<<52) // in [1, 2)
	if fraction > math.Sqrt2 {
		fraction /= 2
		exponent++
	}
	t := fraction - 1
	k := float64(exponent)
	return float64(k*ln2High) + (float64(t*log1pOver(t)) + float64(k*ln2Low))
}

// log1pOver is log(1+t)/t for t > -1, and its limit 1 at 0.
func log1pOver(t float64) float64 {
	if t < -0.3 || t > 0.45 {
		return portableLog(1+t) / t
	}
	// log(1+t) = 2 atanh(s) with s = t/(2+t), |s| < 0.19.
	s := t / (2 + t)
	z := float64(s * s)
	sum := 0.0
	for k := 27; k >= 1; k -= 2 {
		sum = float64(sum*z) + oneOver[k]
	}
	return float64(2 / (2 + t) * sum)
}

// portableExp is e^x, 0 or +Inf beyond the range of float64.
func portableExp(x float64) float64 {
	if x > 710 {
		return math.Inf(1)
	}
	if x < -745 {
		return 0
	}
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	r := (x - float64(k*ln2High)) - float64(k*ln2Low)
	y := 1 + float64(r*expm1Over(r))
	if -1000 < k && k < 1000 {
		return float64(y * math.Float64frombits(uint64(int(k)+1023)<<52))
	}
	return math.Ldexp(y, int(k))
}

// expm1Over is (e^t - 1)/t, and its limit 1 at 0.
func expm1Over(t float64) float64 {
	if t < -0.5 || t > 0.5 {
		return (portableExp(t) - 1) / t
	}
	sum := 0.0
	for k := 15; k >= 1; k-- {
		sum = 1 + float64(float64(sum*t)*oneOver[k+1])
	}
	return sum
}

// oneOver holds 1/k, so that the series do without divisions.
var oneOver = func() (t [32]float64) {
	for k := 1; k < len(t); k++ {
		t[k] = 1 / float64(k)
	}
	return t
}()
