package workload

var backpropShape = &shape{
	name: "backprop",
	doc: "Training of a two-layer network. Each epoch launches forward and backward kernels over both weight matrices; backward updates the weights and their momentum. " +
		"Arrays: 0 inputs, 1 hidden units, 2 outputs, 3 and 4 the weights of the two layers, 5 and 6 their previous changes.",
	params: denseParams(
		count("inputs", "262144", "input units", 1, maxElements>>12),
		bytesParam("inputs", "total size of all arrays, nearly"),
		count("hidden", "16", "hidden units", 1, 4096),
		count("outputs", "1", "output units", 1, 4096),
		count("epochs", "1", "times that the training set is presented", 1, 1<<30)),
	derive: func(v values) error {
		if v.has("bytes") {
			v.set("inputs", v.uint("bytes")/v.uint("elem")/(2*(v.uint("hidden")+1)+1))
		}
		return deriveTile(v)
	},
	open: openDense(runBackprop),
}

// layer is a fully connected layer: weights[i][j] from unit i of in to unit j
// of out. Unit 0 of each is the bias, so the matrix has (in+1) rows of out+1.
type layer struct {
	in, out, weights, changes vector
}

func newLayer(in, out vector, weights, changes uint32) layer {
	n := in.length * out.length
	return layer{in, out, vector{weights, n}, vector{changes, n}}
}

func runBackprop(d *dense, v values) {
	in, hidden, out := vector{0, v.uint("inputs") + 1}, vector{1, v.uint("hidden") + 1}, vector{2, v.uint("outputs") + 1}
	first, second := newLayer(in, hidden, 3, 5), newLayer(hidden, out, 4, 6)
	for epoch := uint64(0); epoch < v.uint("epochs") && !d.closed; epoch++ {
		first.forward(d)
		second.forward(d)
		second.backward(d)
		first.backward(d)
	}
}

// rows is the rows of the matrix that a tile has a part of.
func (l layer) rows(low, high uint64) (first, last uint64) {
	return low / l.out.length, (high + l.out.length - 1) / l.out.length
}

// forward adds in[i] * weights[i][j] up to out[j]; each tile adds its part
// with atomics.
func (l layer) forward(d *dense) {
	if d.closed {
		return
	}
	d.tiles(l.weights.length, func(low, high uint64) {
		first, last := l.rows(low, high)
		d.load(l.in, first, last)
		d.load(l.weights, low, high)
		d.update(l.out, 0, l.out.length)
	})
}

// backward changes weights[i][j] by the error of out[j] times in[i], and by
// the change before (momentum).
func (l layer) backward(d *dense) {
	if d.closed {
		return
	}
	d.tiles(l.weights.length, func(low, high uint64) {
		first, last := l.rows(low, high)
		d.load(l.out, 0, l.out.length)
		d.load(l.in, first, last)
		d.update(l.changes, low, high)
		d.update(l.weights, low, high)
	})
}
