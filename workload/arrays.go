package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/tritier/tritier"
)

// plan is an array that a workload wants.
type plan struct {
	name   string
	bytes  uint64
	create func(ctx context.Context, mem *tritier.Memory) error
	fill   func(ctx context.Context, b *base) error
}

// plans are a workload's arrays in the order of their page numbers.
type plans []plan

// want adds an array of n elements to the plan. Setup makes it at *to and fills it
// with what values gives, zeroes when that is nil.
func want[T any](ps *plans, to **tritier.Array[T], name string, n uint64, values func(first uint64, dst []T)) {
	var t T
	*ps = append(*ps, plan{
		name: name, bytes: n * uint64(unsafe.Sizeof(t)),
		create: func(ctx context.Context, mem *tritier.Memory) (err error) {
			*to, err = tritier.NewArray[T](ctx, mem, name, n)
			return err
		},
		fill: func(ctx context.Context, b *base) error { return fill(ctx, b, *to, values) },
	})
}

// fillBytes is the size of a batch of Setup and Verify: many pages, so that their
// moves overlap.
const fillBytes = 32 << 20

// perFill is fillBytes in elements: a power of two, so that batches end where
// pages do and whole pages are written without being fetched.
func perFill[T any]() uint64 {
	var t T
	n := uint64(1)
	for 2*n*uint64(unsafe.Sizeof(t)) <= fillBytes {
		n *= 2
	}
	return n
}

// fill writes an array from its first element to its last, while values are made for the
// next batch.
func fill[T any](ctx context.Context, b *base, a *tritier.Array[T], values func(first uint64, dst []T)) error {
	var t T
	return overlapped(a.Len(), perFill[T](), func(low uint64, part []T) error {
		if values == nil {
			clear(part)
			return nil
		}
		return generated(ctx, low, part, values)
	}, func(low uint64, part []T) error {
		b.step(uint64(len(part)) * uint64(unsafe.Sizeof(t)))
		return a.Write(ctx, low, part)
	})
}

// ahead brings up to n elements from number first on into T1, if that is asked for.
func ahead[T any](ctx context.Context, b *base, a *tritier.Array[T], first, n uint64) error {
	if !b.Prefetch || first >= a.Len() {
		return nil
	}
	return a.PrefetchRange(ctx, first, min(n, a.Len()-first))
}

// size is the bytes of all arrays.
func (ps plans) size() (n uint64) {
	for _, p := range ps {
		n += p.bytes
	}
	return n
}

// names lists the arrays.
func (ps plans) names() []string {
	var list []string
	for _, p := range ps {
		list = append(list, p.name)
	}
	return list
}

// setup makes every array before it fills the first: page numbers follow the order
// of making, and first accesses that of filling.
func (ps plans) setup(ctx context.Context, mem *tritier.Memory, b *base) error {
	b.expect(int64(ps.size()))
	for _, p := range ps {
		if err := p.create(ctx, mem); err != nil {
			return err
		}
	}
	for _, p := range ps {
		if err := p.fill(ctx, b); err != nil {
			return fmt.Errorf("filling array %q: %w", p.name, err)
		}
	}
	return nil
}

// Mismatch is a result that differs from the reference.
type Mismatch struct {
	Array     string
	Index     uint64 // of the first element that differs
	Got, Want any
	Wrong, Of uint64 // elements that differ, and that were compared
}

// Error names the first element that differs.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("array %q differs from the reference in %d of %d elements, first in element %d: it is %v, not %v",
		m.Array, m.Wrong, m.Of, m.Index, m.Got, m.Want)
}

// compare reads an array and compares it with the reference, element by element. The
// reference is computed once: it depends on the parameters alone.
func compare[T comparable](ctx context.Context, b *base, a *tritier.Array[T], compute func() ([]T, error)) error {
	if a == nil {
		return errors.New("there is nothing to compare: Setup and Run come first")
	}
	reference, _ := b.reference.([]T)
	if reference == nil {
		var err error
		if reference, err = compute(); err != nil {
			return err
		}
		b.reference = reference
	}
	m := &Mismatch{Array: a.Name(), Of: a.Len()}
	var mu sync.Mutex
	err := overlapped(a.Len(), perFill[T](), func(low uint64, got []T) error {
		return a.Read(ctx, low, got)
	}, func(low uint64, got []T) error {
		return parallel(ctx, uint64(len(got)), perPart, func(from, to uint64) {
			if wrong, first := differ(got[from:to], reference[low+from:]); wrong > 0 {
				mu.Lock()
				defer mu.Unlock()
				if at := low + from + first; m.Wrong == 0 || at < m.Index {
					m.Index, m.Got, m.Want = at, got[from+first], reference[at]
				}
				m.Wrong += wrong
			}
		})
	})
	if err == nil && m.Wrong > 0 {
		return m
	}
	return err
}

// differ counts the elements that differ, and says which one is the first.
func differ[T comparable](got, want []T) (wrong, first uint64) {
	for i, v := range got {
		if v == want[i] {
			continue
		}
		if wrong == 0 {
			first = uint64(i)
		}
		wrong++
	}
	return wrong, first
}
