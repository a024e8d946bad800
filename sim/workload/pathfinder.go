package workload

var pathfinderShape = &shape{
	name: "pathfinder",
	doc:  "Cheapest path down a wall by dynamic programming: a launch takes a few rows of the wall (array 0), each read once, from one result row to the other (arrays 1 and 2).",
	params: denseParams(
		count("rows", "100", "rows of the wall", 2, maxElements),
		count("cols", "1048576", "columns of the wall", 1, maxElements),
		bytesParam("cols", "total size of the wall and the two result rows"),
		count("height", "1", "rows that one launch takes; a tile reads as many neighbours on each side", 1, 1<<20)),
	derive: func(v values) error {
		if v.has("bytes") {
			v.set("cols", v.uint("bytes")/v.uint("elem")/(v.uint("rows")+2))
		}
		if rows, cols := v.uint("rows"), v.uint("cols"); cols > maxElements/rows {
			return tooLarge(rows, cols)
		}
		return deriveTile(v)
	},
	open: openDense(runPathfinder),
}

// runPathfinder follows the Rodinia kernel: result[dst][x] = wall[row][x] + the
// least of result[src][x-1..x+1]. Row 0 is the first source; nothing has to be
// computed for it.
func runPathfinder(d *dense, v values) {
	rows, cols, height := v.uint("rows"), v.uint("cols"), v.uint("height")
	wall := vector{0, rows * cols}
	source, target := wall, vector{1, cols}
	for row := uint64(1); row < rows && !d.closed; row += height {
		steps := min(height, rows-row)
		d.tiles(cols, func(low, high uint64) {
			halo := span{low - min(low, steps), min(high+steps, cols)}
			d.load(source, halo.low, halo.high)
			for r := row; r < row+steps; r++ {
				// The halo shrinks by one element a side with each row.
				left := steps - 1 - (r - row)
				d.load(wall, r*cols+low-min(low, left), r*cols+min(high+left, cols))
			}
			d.store(target, low, high)
		})
		source = target
		target = vector{3 - target.id, cols}
	}
}
