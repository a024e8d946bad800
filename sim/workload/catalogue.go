package workload

import "slices"

// Shape documents one shape for help texts.
type Shape struct {
	Name   string
	Doc    string // one or two sentences
	Params []Param
}

// Catalogue lists every shape with its parameters, in the order of the help.
func Catalogue() []Shape {
	list := make([]Shape, len(shapes))
	for i, s := range shapes {
		list[i] = Shape{s.name, s.doc, slices.Clone(s.params)}
	}
	return list
}

// Names lists the names of the shapes.
func Names() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.name
	}
	return names
}

var shapes = []*shape{
	zipfShape, uniformShape, scanShape, loopShape, mixShape, shiftShape,
	vectorAddShape, pathfinderShape, hotspotShape, backpropShape, sradShape,
	bfsShape, ssspShape, pagerankShape,
}

func find(name string) *shape {
	for _, s := range shapes {
		if s.name == name {
			return s
		}
	}
	return nil
}
