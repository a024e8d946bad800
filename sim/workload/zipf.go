package workload

import "math"

// zipf draws ranks 1..n with probability proportional to rank^-theta, exactly
// (up to double precision), in constant time and memory for any theta >= 0:
// rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996).
//
// A uniform point under the integral of the hat x^-theta is inverted to an x
// and rounded to a rank k; k is kept when the point lies under the histogram
// bar that ends at k + 1/2.
type zipf struct {
	source
	theta float64
	n     float64
	low   float64 // integral at 1.5 minus the bar of rank 1
	high  float64 // integral at n + 0.5
	quick float64 // k - x below this is kept without a further look
}

func newZipf(n uint64, theta float64, src source) *zipf {
	z := &zipf{source: src, theta: theta, n: float64(n)}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(z.n + 0.5)
	z.quick = 2 - z.inverse(z.integral(2.5)-z.bar(2))
	return z
}

// rank draws one rank, 1..n.
func (z *zipf) rank() uint64 {
	for {
		u := z.high + float64(z.unit()*(z.low-z.high))
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.quick || u >= z.integral(k+0.5)-z.bar(k) {
			return uint64(k)
		}
	}
}

// bar is x^-theta.
func (z *zipf) bar(x float64) float64 { return portableExp(float64(-z.theta * portableLog(x))) }

// integral is the antiderivative of bar that is 0 at 1:
// (x^(1-theta) - 1) / (1-theta), or log x when theta is 1.
func (z *zipf) integral(x float64) float64 {
	l := portableLog(x)
	return float64(l * expm1Over(float64((1-z.theta)*l)))
}

// inverse is the inverse function of integral.
func (z *zipf) inverse(y float64) float64 {
	// The argument of the logarithm stays above -1 on integral's range;
	// rounding at the far end must not carry it over.
	t := max(float64((1-z.theta)*y), -1+0x1p-52)
	return portableExp(float64(y * log1pOver(t)))
}
