package workload

import "math"

// outputLayer is the small layer, which stays on the CPU.
type outputLayer struct {
	weights, previous [weightCols]float64
	target            float64
}

func newOutputLayer(seed uint64) *outputLayer {
	l := &outputLayer{target: 0.1}
	for i := range l.weights {
		l.weights[i] = float64(unit(seed, 2, uint64(i))) - 0.5
	}
	return l
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// train takes the hidden units' sums and returns their errors.
func (l *outputLayer) train(sums [hiddenUnits]float32) (delta [hiddenUnits]float32) {
	hidden := [weightCols]float64{1}
	sum := 0.0
	for j := range hidden {
		if j > 0 {
			hidden[j] = sigmoid(float64(sums[j-1]))
		}
		sum += float64(l.weights[j] * hidden[j])
	}
	out := sigmoid(sum)
	wrong := out * (1 - out) * (l.target - out)
	for j := range delta {
		h := hidden[j+1]
		delta[j] = float32(h * (1 - h) * wrong * l.weights[j+1])
	}
	for j := range l.weights {
		change := float64(eta*wrong*hidden[j]) + float64(momentum*l.previous[j])
		l.weights[j] += change
		l.previous[j] = change
	}
	return delta
}
