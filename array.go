package tritier

import (
	"context"
	"errors"
	"fmt"

	"github.com/tritier/tritier/libnvm/volume"
	"github.com/tritier/tritier/tier"
	"github.com/tritier/tritier/tier/host"
)

// Array is a named array of T in a Memory. Handles of one array are equal.
type Array[T any] struct {
	m *Memory
	a *openArray
}

// NewArray opens the array of this name and length, or makes it, filled with zeroes.
// An array of another type or length under the name is a *MismatchError; of structs and
// arrays as T no more is known than their size. T must be of fixed size, without pointers,
// and at most a page.
func NewArray[T any](ctx context.Context, m *Memory, name string, length uint64) (*Array[T], error) {
	return openArrayOf[T](ctx, m, name, length, true)
}

// OpenArray opens an array that exists, of any length.
func OpenArray[T any](ctx context.Context, m *Memory, name string) (*Array[T], error) {
	return openArrayOf[T](ctx, m, name, 0, false)
}

// MismatchError is an array that is there, but not as asked for.
type MismatchError struct{ Name, Has, Want string }

// Error says both.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("array %q has %s, not %s", e.Name, e.Has, e.Want)
}

func openArrayOf[T any](ctx context.Context, m *Memory, name string, length uint64, create bool) (*Array[T], error) {
	e, err := elementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", name, err)
	}
	if err := errors.Join(checkArrayName(name), ctx.Err()); err != nil {
		return nil, err
	}
	page := uint64(m.cfg.PageSize)
	if uint64(e.size) > page {
		return nil, fmt.Errorf("array %q: an element of %d bytes does not fit a page of %d", name, e.size, page)
	}
	a, err := m.openArray(ctx, arrayKey{name, e, length}, page/uint64(e.size), create)
	if err != nil {
		return nil, err
	}
	return &Array[T]{m: m, a: a}, nil
}

// openArray finds or makes an array, and makes it known to the tiers.
func (m *Memory) openArray(ctx context.Context, want arrayKey, perPage uint64, create bool) (*openArray, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Leave()
	if m.closed {
		return nil, ErrClosed
	}
	key, exists := m.find(want.name)
	if !exists {
		return m.createArray(want, perPage, create)
	}
	has, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	if has.element != want.element {
		return nil, &MismatchError{want.name, has.element.String() + " elements", want.element.String()}
	}
	if create && has.length != want.length {
		return nil, &MismatchError{want.name, fmt.Sprint(has.length, " elements"), fmt.Sprint(want.length)}
	}
	if a := m.arrays[want.name]; a != nil {
		return a, nil
	}
	v, err := m.vol.OpenArray(key)
	if err != nil {
		return nil, err
	}
	return m.adopt(has, perPage, v)
}

func (m *Memory) createArray(want arrayKey, perPage uint64, create bool) (*openArray, error) {
	if !create {
		return nil, fmt.Errorf("array %q: %w", want.name, volume.ErrNoArray)
	}
	if want.length == 0 {
		return nil, fmt.Errorf("array %q: it has no elements", want.name)
	}
	v, err := m.vol.CreateArray(want.String(), (want.length-1)/perPage+1)
	if err != nil {
		return nil, fmt.Errorf("array %q of %d elements: %w", want.name, want.length, err)
	}
	return m.adopt(want, perPage, v)
}

// adopt makes an array of the store known to the tiers.
func (m *Memory) adopt(k arrayKey, perPage uint64, v *volume.Array) (*openArray, error) {
	a := &openArray{key: k, id: int(v.Info().ID), size: uint64(k.element.size), perPage: perPage}
	if err := m.eng.adopt(a, v); err != nil {
		return nil, err
	}
	m.arrays[k.name] = a
	return a, nil
}

// use keeps the array from being dropped until done, if its Memory is open.
func (a *Array[T]) use() (done func(), err error) {
	if err := a.m.open(); err != nil {
		return nil, err
	}
	return a.a.use()
}

// Name is the array's name.
func (a *Array[T]) Name() string { return a.a.key.name }

// Len is the number of elements.
func (a *Array[T]) Len() uint64 { return a.a.key.length }

// RangeError is an index outside of an array.
type RangeError struct {
	Array string
	Index uint64
	Len   uint64
}

// Error names the index.
func (e *RangeError) Error() string {
	return fmt.Sprintf("array %q has %d elements: there is no element %d", e.Array, e.Len, e.Index)
}

// SizeError is a number of values that is not the number of indices.
type SizeError struct{ Indices, Values int }

// Error says both.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%d indices, but %d values", e.Indices, e.Values)
}

// Gather reads element indices[i] to dst[i], for all i. The elements of 32 indices
// in a row that share a page are one access of it, as a warp's would be.
func (a *Array[T]) Gather(ctx context.Context, indices []uint64, dst []T) error {
	return a.each(ctx, tier.Read, indices, len(dst), host.Buffer{Bytes: bytesOf(dst)})
}

// Scatter writes src[i] to element indices[i], for all i. An index that occurs more
// than once gets the last of its values, on a GPU any of them.
func (a *Array[T]) Scatter(ctx context.Context, indices []uint64, src []T) error {
	return a.each(ctx, tier.Write, indices, len(src), host.Buffer{Bytes: bytesOf(src)})
}

// Prefetch brings the pages of the elements into T1. It counts as no access.
func (a *Array[T]) Prefetch(ctx context.Context, indices []uint64) error {
	return a.each(ctx, tier.Prefetch, indices, len(indices), host.Buffer{})
}

// each carries out op for elements anywhere.
func (a *Array[T]) each(ctx context.Context, op tier.Op, indices []uint64, values int, buf host.Buffer) error {
	if len(indices) != values {
		return &SizeError{len(indices), values}
	}
	for _, i := range indices {
		if i >= a.Len() {
			return &RangeError{a.Name(), i, a.Len()}
		}
	}
	if len(indices) == 0 {
		return nil
	}
	done, err := a.use()
	if err != nil {
		return err
	}
	defer done()
	return a.m.eng.elements(ctx, a.a, op, indices, buf)
}

// Read reads the elements from number first on to dst: one access per page.
func (a *Array[T]) Read(ctx context.Context, first uint64, dst []T) error {
	return a.run(ctx, tier.Read, first, uint64(len(dst)), host.Buffer{Bytes: bytesOf(dst)})
}

// Write writes src to the elements from number first on: one access per page. A
// page that is written whole is not fetched.
func (a *Array[T]) Write(ctx context.Context, first uint64, src []T) error {
	return a.run(ctx, tier.Write, first, uint64(len(src)), host.Buffer{Bytes: bytesOf(src)})
}

// PrefetchRange brings the pages of n elements from number first on into T1.
func (a *Array[T]) PrefetchRange(ctx context.Context, first, n uint64) error {
	return a.run(ctx, tier.Prefetch, first, n, host.Buffer{})
}

// checkRange refuses ranges that leave the array, also those whose end wraps.
func (a *Array[T]) checkRange(first, n uint64) error {
	if first > a.Len() || n > a.Len()-first {
		return &RangeError{a.Name(), max(first, a.Len()), a.Len()}
	}
	return nil
}

func (a *Array[T]) run(ctx context.Context, op tier.Op, first, n uint64, buf host.Buffer) error {
	if err := a.checkRange(first, n); err != nil || n == 0 {
		return err
	}
	done, err := a.use()
	if err != nil {
		return err
	}
	defer done()
	return a.m.eng.run(ctx, a.a, op, first, n, buf)
}
