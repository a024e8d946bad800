package gpuinfo

import "errors"

// Source is where a figure comes from.
type Source string

// The sources.
const (
	NVML  Source = "nvml"
	Sysfs Source = "sysfs"
)

// Figure is a value with its source, or the reason why there is none.
type Figure[T any] struct {
	Value  T
	Source Source // "" when the value is not known
	Err    error  // why it is not known; an [*UnavailableError] can be found in it
}

// Known says whether there is a value.
func (f Figure[T]) Known() bool { return f.Source != "" }

// known is a figure with a value.
func known[T any](v T, from Source) Figure[T] { return Figure[T]{Value: v, Source: from} }

// figure is what a source answered.
func figure[T any](v T, err error, from Source) Figure[T] {
	if err != nil {
		return Figure[T]{Err: err}
	}
	return known(v, from)
}

// or is f, or other where f is not known; both reasons are kept.
func (f Figure[T]) or(other Figure[T]) Figure[T] {
	switch {
	case f.Known():
		return f
	case other.Known():
		return other
	}
	return Figure[T]{Err: errors.Join(f.Err, other.Err)}
}
