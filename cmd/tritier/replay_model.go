package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tritier/tritier/internal/servicetime"
	"github.com/tritier/tritier/sim"
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

// maxInFlight bounds what a replay keeps under way: more than any GPU has warps.
const maxInFlight = 1 << 20

// checkTiming refuses what a replay in virtual time cannot do.
func (s *settings) checkTiming() error {
	switch {
	case s.inFlight < 0 || s.inFlight > maxInFlight:
		return fmt.Errorf("--in-flight %d: it must be 1 to %d", s.inFlight, maxInFlight)
	case s.inFlight == 0 && s.path != "":
		return errors.New("--path is the way of pages in virtual time: give --in-flight too")
	case s.inFlight == 0:
		return nil
	case s.model == nil:
		return errors.New("--in-flight needs a model: not --model none")
	}
	if _, _, _, err := s.model.get().By(s.path); err != nil {
		return fmt.Errorf("--path: %w", err)
	}
	return nil
}

// timing is what the simulator needs for virtual time; nil without.
func (s *settings) timing() *sim.Timing {
	if s.inFlight == 0 {
		return nil
	}
	return &sim.Timing{Path: s.path, InFlight: s.inFlight, Seed: s.seed}
}
