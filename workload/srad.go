package workload

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tritier/tritier"
	"github.com/tritier/tritier/workload/kernels"
)

// Parameters of srad, as in Rodinia's script.
const (
	lambda      = 0.5
	speckleArea = 128 // side of the region whose noise is measured
)

var sradKind = Kind{
	Name: "srad", Iterations: 4, Unit: "iteration", make: newSrad, load: loading(kernels.LoadSrad),
	Doc: "Speckle-reducing anisotropic diffusion of an image (Rodinia, version 2): each iteration measures the noise of a region, then one launch writes four derivatives and the coefficient from a five-point stencil, and another one reads them to change the image.",
}

// srad removes speckle from an image.
type srad struct {
	base
	side        uint64
	image       *tritier.Array[float32]
	derivatives [4]*tritier.Array[float32] // to the north, south, west and east
	coefficient *tritier.Array[float32]
	arrays      plans
}

func newSrad(p Params) (Workload, error) {
	w := &srad{base: base{Params: p}, side: side(p.elements(4 * 6))}
	n := w.side * w.side
	want(&w.arrays, &w.image, "srad.image", n, w.picture)
	for i, name := range []string{"north", "south", "west", "east"} {
		want(&w.arrays, &w.derivatives[i], "srad."+name, n, nil)
	}
	want(&w.arrays, &w.coefficient, "srad.coefficient", n, nil)
	return w, nil
}

// picture is exp of the brightness, from 0 to 1.
func (w *srad) picture(first uint64, dst []float32) {
	key := keyOf(w.Seed, 0)
	for i := range dst {
		dst[i] = float32(math.Exp(float64(asUnit(hash(key + first + uint64(i))))))
	}
}

// Describe implements Workload.
func (w *srad) Describe() string {
	return fmt.Sprintf("an image of %d x %d float32, %d iterations of two launches", w.side, w.side, w.Iterations)
}

// Size implements Workload.
func (w *srad) Size() uint64 { return w.arrays.size() }

// Arrays implements Workload.
func (w *srad) Arrays() []string { return w.arrays.names() }

// Setup implements Workload.
func (w *srad) Setup(ctx context.Context, mem *tritier.Memory) error {
	return w.arrays.setup(ctx, mem, &w.base)
}

// sradTile is what the threads that are resident at a time hold.
type sradTile struct {
	image, coefficient []float32 // with a row more on each side
	d                  [4][]float32
}

// Run implements Workload.
func (w *srad) Run(ctx context.Context, _ *tritier.Memory) error {
	w.expect(2 * int64(w.side) * int64(w.Iterations))
	rows := w.band(w.side)
	t := &sradTile{image: make([]float32, (rows+2)*w.side), coefficient: make([]float32, (rows+2)*w.side)}
	for i := range t.d {
		t.d[i] = make([]float32, rows*w.side)
	}
	for range w.Iterations {
		var q float32
		err := w.launch("noise", func() (err error) {
			q, err = w.noise(ctx, t.image)
			return err
		})
		if err != nil {
			return err
		}
		for _, k := range []struct {
			name string
			tile func(context.Context, *sradTile, float32, uint64, uint64) error
		}{{"derivatives", w.derive}, {"diffusion", w.diffuse}} {
			err := w.launch(k.name, func() error {
				return batches(w.side, rows, func(low, high uint64) error {
					w.step(high - low)
					return k.tile(ctx, t, q, low, high)
				})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// noise is the squared coefficient of variation of the region.
func (w *srad) noise(ctx context.Context, buf []float32) (float32, error) {
	n := min(w.side, speckleArea)
	var s speckle
	for y := range n {
		if err := w.image.Read(ctx, y*w.side, buf[:n]); err != nil {
			return 0, err
		}
		s.add(buf[:n])
	}
	return s.squared(), nil
}

// speckle sums a region up.
type speckle struct {
	sum, squares float32
	n            float32
}

func (s *speckle) add(values []float32) {
	for _, v := range values {
		s.sum += v
		s.squares += float32(v * v)
		s.n++
	}
}

func (s *speckle) squared() float32 {
	mean := s.sum / s.n
	return (s.squares/s.n - float32(mean*mean)) / float32(mean*mean)
}

// derive is a tile of the first launch: derivatives and coefficient of rows [low, high).
func (w *srad) derive(ctx context.Context, t *sradTile, q float32, low, high uint64) error {
	n := w.side
	from, to := low-min(low, 1), min(high+1, n)
	if err := w.image.Read(ctx, from*n, t.image[:(to-from)*n]); err != nil {
		return err
	}
	err := parallel(ctx, high-low, rowsPerPart(n), func(a, b uint64) {
		for y := low + a; y < low+b; y++ {
			w.deriveRow(t, y, low, from, q)
		}
	})
	if err != nil {
		return err
	}
	for i, a := range w.derivatives {
		if err := a.Write(ctx, low*n, t.d[i][:(high-low)*n]); err != nil {
			return err
		}
	}
	return w.coefficient.Write(ctx, low*n, t.coefficient[:(high-low)*n])
}

// deriveRow is row y of a tile that begins at row low, its image at row from.
func (w *srad) deriveRow(t *sradTile, y, low, from uint64, q float32) {
	n := w.side
	row := t.image[(y-from)*n:]
	north, south := t.image[(max(y, from+1)-1-from)*n:], t.image[(min(y+1, n-1)-from)*n:]
	for x := range n {
		d := [4]float32{north[x] - row[x], south[x] - row[x], row[x-min(x, 1)] - row[x], row[min(x+1, n-1)] - row[x]}
		at := (y-low)*n + x
		for i := range d {
			t.d[i][at] = d[i]
		}
		t.coefficient[at] = diffusion(row[x], d, q)
	}
}

// diffusion is the coefficient of a cell with these derivatives to the north,
// south, west and east.
func diffusion(cell float32, d [4]float32, q float32) float32 {
	squares := float32(d[0]*d[0]) + float32(d[1]*d[1]) + float32(d[2]*d[2]) + float32(d[3]*d[3])
	gradient := squares / float32(cell*cell)
	laplace := (d[0] + d[1] + d[2] + d[3]) / cell
	numerator := float32(0.5*gradient) - float32(float32(0.0625)*float32(laplace*laplace))
	denominator := 1 + float32(0.25*laplace)
	variation := numerator / float32(denominator*denominator)
	c := 1 / (1 + (variation-q)/float32(q*(1+q)))
	return min(max(c, 0), 1)
}

// diffuse is a tile of the second launch: it changes rows [low, high) of the image.
// A cell's coefficient serves its north and west, its neighbours' south and east.
func (w *srad) diffuse(ctx context.Context, t *sradTile, _ float32, low, high uint64) error {
	n := w.side
	to := min(high+1, n)
	if err := w.coefficient.Read(ctx, low*n, t.coefficient[:(to-low)*n]); err != nil {
		return err
	}
	for i, a := range w.derivatives {
		if err := a.Read(ctx, low*n, t.d[i][:(high-low)*n]); err != nil {
			return err
		}
	}
	image := t.image[:(high-low)*n]
	if err := w.image.Read(ctx, low*n, image); err != nil {
		return err
	}
	err := parallel(ctx, high-low, rowsPerPart(n), func(a, b uint64) {
		for y := low + a; y < low+b; y++ {
			row, south := t.coefficient[(y-low)*n:], t.coefficient[(min(y+1, n-1)-low)*n:]
			for x := range n {
				at := (y-low)*n + x
				d := [4]float32{t.d[0][at], t.d[1][at], t.d[2][at], t.d[3][at]}
				image[at] = diffused(image[at], d, row[x], south[x], row[min(x+1, n-1)])
			}
		}
	})
	if err != nil {
		return err
	}
	return w.image.Write(ctx, low*n, image)
}

// diffused is a cell after an iteration, from the coefficients here, to the south
// and to the east.
func diffused(cell float32, d [4]float32, here, south, east float32) float32 {
	divergence := float32(here*d[0]) + float32(south*d[1]) + float32(here*d[2]) + float32(east*d[3])
	return cell + float32(float32(0.25*lambda)*divergence)
}

// Verify implements Workload.
func (w *srad) Verify(ctx context.Context, _ *tritier.Memory) error {
	return compare(ctx, &w.base, w.image, func() ([]float32, error) { return w.reference(ctx) })
}

// reference works on the whole image at a time.
func (w *srad) reference(ctx context.Context) ([]float32, error) {
	n := w.side
	image, err := made(ctx, n*n, w.picture)
	coefficient, derivatives := make([]float32, n*n), make([][4]float32, n*n)
	rows := func(f func(y, north, south uint64)) {
		err = errors.Join(err, parallel(ctx, n, rowsPerPart(n), func(low, high uint64) {
			for y := low; y < high; y++ {
				f(y, y-min(y, 1), min(y+1, n-1))
			}
		}))
	}
	for range w.Iterations {
		var s speckle
		for y := range min(n, speckleArea) {
			s.add(image[y*n : y*n+min(n, speckleArea)])
		}
		q := s.squared()
		rows(func(y, north, south uint64) {
			row, above, below := rowAt(image, n, y), rowAt(image, n, north), rowAt(image, n, south)
			ds, cs := rowAt(derivatives, n, y), rowAt(coefficient, n, y)
			for x, cell := range row {
				d := [4]float32{above[x] - cell, below[x] - cell, row[max(x-1, 0)] - cell, row[min(x+1, len(row)-1)] - cell}
				ds[x], cs[x] = d, diffusion(cell, d, q)
			}
		})
		rows(func(y, _, south uint64) {
			row, ds := rowAt(image, n, y), rowAt(derivatives, n, y)
			here, below := rowAt(coefficient, n, y), rowAt(coefficient, n, south)
			for x, cell := range row {
				row[x] = diffused(cell, ds[x], here[x], below[x], here[min(x+1, len(row)-1)])
			}
		})
	}
	return image, err
}
