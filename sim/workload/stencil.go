package workload

import "fmt"

// grid is a rows x cols matrix in row-major order.
type grid struct {
	vector
	cols uint64
}

func tooLarge(rows, cols uint64) error {
	return fmt.Errorf("%d rows of %d columns: more than %d elements", rows, cols, uint64(maxElements))
}

// gridParams are the parameters of the stencils over square or other grids.
func gridParams(total string) []Param {
	return denseParams(
		count("rows", "4096", "rows of a grid", 1, maxSide),
		count("cols", "4096", "columns of a grid", 1, maxSide),
		bytesParam("rows+cols", total+" of square shape"),
		count("iterations", "10", "time steps", 1, 1<<40))
}

// around is what a five-point stencil of the elements [low, high) reads: the
// rows above and below, and the elements with their neighbours left and right.
func (g grid) around(low, high uint64) (north, centre, south span) {
	if low >= g.cols || high > g.cols {
		north = span{max(low, g.cols) - g.cols, high - min(high, g.cols)}
	}
	centre = span{low, high}
	if low%g.cols != 0 {
		centre.low--
	}
	if high%g.cols != 0 {
		centre.high++
	}
	south = g.below(low, high)
	return north, centre, south
}

// below is the elements one row further down.
func (g grid) below(low, high uint64) span {
	return span{min(low+g.cols, g.length), min(high+g.cols, g.length)}
}

var hotspotShape = &shape{
	name:   "hotspot",
	doc:    "Heat on a chip: each iteration, a request, reads one temperature grid with a five-point stencil and the power grid, and writes the other temperature grid (arrays 0 and 1; power is 2).",
	params: gridParams("total size of the three grids"),
	derive: deriveGrid(3),
	open:   openDense(runHotspot),
}

func runHotspot(d *dense, v values) {
	n, cols := v.uint("rows")*v.uint("cols"), v.uint("cols")
	source, target, power := grid{vector{0, n}, cols}, grid{vector{1, n}, cols}, vector{2, n}
	for i := uint64(0); i < v.uint("iterations") && !d.closed; i++ {
		d.tiles(n, func(low, high uint64) {
			north, centre, south := source.around(low, high)
			d.loadAll(source.vector, north, centre, south)
			d.load(power, low, high)
			d.store(target.vector, low, high)
		})
		source, target = target, source
	}
}

var sradShape = &shape{
	name: "srad",
	doc: "Speckle-reducing diffusion of an image (array 0). Each iteration launches two kernels: one reads the image with a five-point stencil and writes " +
		"four derivatives (1 to 4) and the coefficients (5), the other reads those and updates the image.",
	params: gridParams("total size of the image and the five coefficient arrays"),
	derive: deriveGrid(6),
	open:   openDense(runSrad),
}

func runSrad(d *dense, v values) {
	n, cols := v.uint("rows")*v.uint("cols"), v.uint("cols")
	image, coefficient := grid{vector{0, n}, cols}, grid{vector{5, n}, cols}
	for i := uint64(0); i < v.uint("iterations") && !d.closed; i++ {
		d.tiles(n, func(low, high uint64) {
			north, centre, south := image.around(low, high)
			d.loadAll(image.vector, north, centre, south)
			for id := uint32(1); id <= 5; id++ {
				d.store(vector{id, n}, low, high)
			}
		})
		if d.closed {
			return
		}
		d.tiles(n, func(low, high uint64) {
			// The divergence takes the coefficient here, to the east and to the south.
			_, centre, south := coefficient.around(low, high)
			d.loadAll(coefficient.vector, span{low, centre.high}, south)
			for id := uint32(1); id <= 4; id++ {
				d.load(vector{id, n}, low, high)
			}
			d.update(image.vector, low, high)
		})
	}
}
