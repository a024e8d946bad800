package workload

import (
	"context"

	"github.com/tritier/tritier"
)

// walker expands vertices to their edges as the resident threads of a kernel do:
// offsets are gathered for the frontier, neighbours along its lists.
type walker struct {
	w       *graphBase
	index   []uint64 // scratch: of offsets
	bounds  []uint64 // offsets of the frontier, begin and end in turn
	edges   []uint64 // indices of the edges of a batch
	sources []uint32 // vertex that each edge of it leaves
	targets []uint32 // neighbours that they lead to
	heads   []uint64 // targets, as indices of properties
}

// walk calls visit for batches of edges that leave the vertices: visit finds them
// in edges, sources, targets and heads.
func (x *walker) walk(ctx context.Context, vertices []uint64, visit func() error) error {
	x.index = x.index[:0]
	for _, v := range vertices {
		x.index = append(x.index, v, v+1)
	}
	x.bounds = sized(x.bounds, len(x.index))
	if err := x.w.offsets.Gather(ctx, x.index, x.bounds); err != nil {
		return err
	}
	x.edges, x.sources = x.edges[:0], x.sources[:0]
	for i, v := range vertices {
		for at := x.bounds[2*i]; at < x.bounds[2*i+1]; at++ {
			x.edges, x.sources = append(x.edges, at), append(x.sources, uint32(v))
			if len(x.edges) == x.w.Batch {
				if err := x.flush(ctx, visit); err != nil {
					return err
				}
			}
		}
	}
	return x.flush(ctx, visit)
}

// flush brings the neighbours of the batch and visits them.
func (x *walker) flush(ctx context.Context, visit func() error) error {
	if len(x.edges) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	x.targets = sized(x.targets, len(x.edges))
	if err := x.w.edges.Gather(ctx, x.edges, x.targets); err != nil {
		return err
	}
	x.heads = sized(x.heads, len(x.edges))
	for i, t := range x.targets {
		x.heads[i] = uint64(t)
	}
	err := visit()
	x.w.step(uint64(len(x.edges)))
	x.edges, x.sources = x.edges[:0], x.sources[:0]
	return err
}

// sized is s with n elements, whatever they hold.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// gather reads elements into s, grown where it is too short.
func gather[T any](ctx context.Context, a *tritier.Array[T], indices []uint64, s []T) ([]T, error) {
	s = sized(s, len(indices))
	return s, a.Gather(ctx, indices, s)
}

// repeat writes the same value to elements.
func repeat[T any](ctx context.Context, a *tritier.Array[T], indices []uint64, v T, s []T) ([]T, error) {
	s = sized(s, len(indices))
	for i := range s {
		s[i] = v
	}
	return s, a.Scatter(ctx, indices, s)
}
