package workload

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// pyramid is the number of time steps that a launch takes over a tile and its halo.
const pyramid = 2

var hotspotKind = Kind{
	Name: "hotspot", Iterations: 10, Unit: "time step", Prefetches: true, make: newHotspot, load: loading(kernels.LoadHotspot),
	Doc: "Heat on a chip (Rodinia): five-point stencil over a square float32 grid of temperatures, with a grid of power; a launch takes 2 time steps over bands of rows with their halo, from one temperature grid to the other.",
}

// hotspot simulates the temperature of a chip.
type hotspot struct {
	base
	side  uint64
	temp  [2]*tritier.Array[float32]
	power *tritier.Array[float32]
	last  int // of temp, that has the answer
	chip
	arrays plans
}

// chip is the physics of a cell, as Rodinia has it.
type chip struct{ rate, rx, ry, rz float32 }

// ambient temperature in kelvins, less 273.15 as in Rodinia's input.
const ambient = 80

func newChip(side uint64) chip {
	const size, thick, factor, silicon, capacity, maxPD, precision = 0.016, 0.0005, 0.5, 100, 1.75e6, 3.0e6, 0.001
	cell := float64(size) / float64(side)
	cap := factor * capacity * thick * cell * cell
	rx := cell / (2 * silicon * thick * cell)
	rz := thick / (silicon * cell * cell)
	step := precision / (maxPD / (factor * thick * capacity))
	return chip{float32(step / cap), float32(1 / rx), float32(1 / rx), float32(1 / rz)}
}

// after is the temperature of a cell after a step. Products are rounded before they
// are added.
func (c chip) after(t, north, south, west, east, power float32) float32 {
	vertical := float32((north + south - float32(2*t)) * c.ry)
	horizontal := float32((east + west - float32(2*t)) * c.rx)
	return t + float32(c.rate*(power+vertical+horizontal+float32((ambient-t)*c.rz)))
}

func newHotspot(p Params) (Workload, error) {
	w := &hotspot{base: base{Params: p}}
	w.side = side(p.elements(4 * 3))
	w.chip = newChip(w.side)
	n := w.side * w.side
	want(&w.arrays, &w.temp[0], "hotspot.temp0", n, w.start())
	want(&w.arrays, &w.temp[1], "hotspot.temp1", n, nil)
	want(&w.arrays, &w.power, "hotspot.power", n, w.heat())
	return w, nil
}

// side is that of the largest square of n cells.
func side(n uint64) uint64 { return max(uint64(math.Sqrt(float64(n))), 2) }

func (w *hotspot) start() func(uint64, []float32) { return units(w.Seed, 0, 70, 90) }

func (w *hotspot) heat() func(uint64, []float32) { return units(w.Seed, 1, 0, 0.01) }

// Describe implements Workload.
func (w *hotspot) Describe() string {
	return fmt.Sprintf("a chip of %d x %d float32 cells, %d time steps, %d a launch", w.side, w.side, w.Iterations, pyramid)
}

// Size implements Workload.
func (w *hotspot) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *hotspot) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *hotspot) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// band is what the threads that are resident at a time have of the grid: whole rows.
func (b *base) band(cols uint64) uint64 { return max(uint64(b.Batch)/cols, 1) }

// Run implements Workload.
func (w *hotspot) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(int64(w.side) * int64(w.Iterations))
	rows := w.band(w.side)
	n := (rows + 2*pyramid) * w.side
	t := &chipTile{now: make([]float32, n), next: make([]float32, n), power: make([]float32, n)}
	w.last = 0
	for step := 0; step < w.Iterations; step += pyramid {
		steps := uint64(min(pyramid, w.Iterations-step))
		err := w.launch("heat", func() error {
			return batches(w.side, rows, func(low, high uint64) error { return w.tile(ctx, t, steps, low, high) })
		})
		if err != nil {
			return err
		}
		w.last = 1 - w.last
	}
	return nil
}

// chipTile is the shared memory of a tile: rows and their halo.
type chipTile struct{ now, next, power []float32 }

// tile takes rows [low, high) some steps further; the halo shrinks by a row on
// each side with every step.
func (w *hotspot) tile(ctx context.Context, t *chipTile, steps, low, high uint64) error {
	from, to := low-min(low, steps), min(high+steps, w.side)
	if err := w.temp[w.last].Read(ctx, from*w.side, t.now[:(to-from)*w.side]); err != nil {
		return err
	}
	pFrom, pTo := low-min(low, steps-1), min(high+steps-1, w.side)
	if err := w.power.Read(ctx, pFrom*w.side, t.power[:(pTo-pFrom)*w.side]); err != nil {
		return err
	}
	if err := ahead(ctx, &w.base, w.temp[w.last], to*w.side, (high-low)*w.side); err != nil {
		return err
	}
	for k := range steps {
		halo := steps - 1 - k
		first := low - min(low, halo)
		err := parallel(ctx, min(high+halo, w.side)-first, rowsPerPart(w.side), func(a, b uint64) {
			for y := first + a; y < first+b; y++ {
				w.row(t, y, from, pFrom)
			}
		})
		if err != nil {
			return err
		}
		t.now, t.next = t.next, t.now
	}
	w.step((high - low) * steps)
	return w.temp[1-w.last].Write(ctx, low*w.side, t.now[(low-from)*w.side:(high-from)*w.side])
}

// row takes row y a step further; cells at the border see themselves beyond it.
func (w *hotspot) row(t *chipTile, y, from, powerFrom uint64) {
	n := w.side
	at := (y - from) * n
	north, south := at, at
	if y > 0 {
		north = at - n
	}
	if y+1 < n {
		south = at + n
	}
	power := (y - powerFrom) * n
	for x := range n {
		west, east := x-min(x, 1), min(x+1, n-1)
		t.next[at+x] = w.after(t.now[at+x], t.now[north+x], t.now[south+x], t.now[at+west], t.now[at+east], t.power[power+x])
	}
}

// Verify implements Workload.
func (w *hotspot) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.temp[w.last], func() ([]float32, error) { return w.reference(ctx) })
}

// reference takes the whole grid a step further at a time.
func (w *hotspot) reference(ctx context.Context) ([]float32, error) {
	n := w.side
	now, err := made(ctx, n*n, w.start())
	if err != nil {
		return nil, err
	}
	power, err := made(ctx, n*n, w.heat())
	next := make([]float32, n*n)
	for range w.Iterations {
		err = errors.Join(err, parallel(ctx, n, rowsPerPart(n), func(low, high uint64) {
			for y := low; y < high; y++ {
				row, north, south := rowAt(now, n, y), rowAt(now, n, y-min(y, 1)), rowAt(now, n, min(y+1, n-1))
				power, after := rowAt(power, n, y), rowAt(next, n, y)
				for x := range n {
					after[x] = w.after(row[x], north[x], south[x], row[x-min(x, 1)], row[min(x+1, n-1)], power[x])
				}
			}
		}))
		now, next = next, now
	}
	return now, err
}

// rowAt is row y of a grid of n columns.
func rowAt[T any](grid []T, n, y uint64) []T { return grid[y*n:][:n:n] }
