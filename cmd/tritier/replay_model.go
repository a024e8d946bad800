package main

import (
	"slices"

	"github.com/tritier/tritier/internal/servicetime"
)

// modelSource is a model that may still be on its way.
type modelSource struct {
	ready chan struct{}
	model *servicetime.Model
}

// openModel loads the model that --model names. A file is read before anything
// else happens, since it can be wrong. A preset cannot, and decoding its YAML
// takes longer than many a trace, so that it goes on while the trace is read.
func openModel(name string) (*modelSource, error) {
	s := &modelSource{ready: make(chan struct{})}
	if !slices.Contains(servicetime.Names(), name) {
		m, err := servicetime.Load(name)
		s.model = m
		close(s.ready)
		return s, err
	}
	go func() {
		defer close(s.ready)
		s.model, _ = servicetime.Load(name) // a test loads every preset
	}()
	return s, nil
}

// get waits for the model; nil only for a preset that does not decode.
func (s *modelSource) get() *servicetime.Model {
	<-s.ready
	return s.model
}
