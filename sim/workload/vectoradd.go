package workload

var vectorAddShape = &shape{
	name: "multi-vector-add",
	doc:  "c = a + b + ...: the inputs (arrays 0, 1, ...) are read, the output (the last array) is written in whole pages; each pass is a request.",
	params: denseParams(
		count("vectors", "3", "input vectors", 1, 1000),
		count("elements", "16777216", "elements of a vector", 1, maxElements),
		bytesParam("elements", "total size of the inputs and the output"),
		count("passes", "1", "times that the sum is made", 1, 1<<30)),
	derive: func(v values) error {
		if v.has("bytes") {
			v.set("elements", v.uint("bytes")/v.uint("elem")/(v.uint("vectors")+1))
		}
		return deriveTile(v)
	},
	open: openDense(runVectorAdd),
}

func runVectorAdd(d *dense, v values) {
	vectors, n := uint32(v.uint("vectors")), v.uint("elements")
	for pass := uint64(0); pass < v.uint("passes") && !d.closed; pass++ {
		d.tiles(n, func(low, high uint64) {
			for id := range vectors {
				d.load(vector{id, n}, low, high)
			}
			d.store(vector{vectors, n}, low, high)
		})
	}
}
