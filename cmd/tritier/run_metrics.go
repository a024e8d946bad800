package main

import (
	"context"
	"fmt"
	"net"
	"time"

	lib "github.com/tritier/tritier"
	"github.com/tritier/tritier/metrics"
)

// door is where a run is going to answer Prometheus; without a listener it answers nobody.
type door struct{ l net.Listener }

// listen finds out whether --metrics names an address that can be had.
func (r *runner) listen() (door, error) {
	if r.f.metrics == "" {
		return door{}, nil
	}
	l, err := net.Listen("tcp", r.f.metrics)
	if err != nil {
		return door{}, fmt.Errorf("--metrics: %w", err)
	}
	return door{l}, nil
}

// serve answers until the function that it returns is called.
func (d door) serve(name string, mem *lib.Memory) (end func() error, err error) {
	if d.l == nil {
		return func() error { return nil }, nil
	}
	s, err := metrics.ServeOn(d.l, metrics.New(name, mem))
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return s.Close(ctx)
	}, nil
}

// close ends the listening where it has come to no serving.
func (d door) close() {
	if d.l != nil {
		_ = d.l.Close() // that it was closed with its server already is no error
	}
}
